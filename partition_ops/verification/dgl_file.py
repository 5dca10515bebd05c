"""Check that one of DGL's files is complete before DGL's reader gets it, which would crash the process.

Only DGL reads the values; our own code finds where arrays begin and end.
"""

from __future__ import annotations

from pathlib import Path

from partition_ops.errors import InvalidInputError
from partition_ops.formats.dgl.array_places import ArrayPlace, graph_places, read_file_at, tensor_places


def check_whole(path: Path, where: str) -> None:
    """Reject a graph file or a tensor file that is damaged or too short for its arrays.

    Args:
        path: The file; ``graph.dgl`` is a graph file, every other one a tensor file.
        where: Its URI, for messages.

    Raises:
        InvalidInputError: The file is damaged or too short. Only headers are read.
    """
    size, end = (
        path.stat().st_size,
        max((one.offset + one.num_bytes for one in _arrays(path, where)), default=0),
    )
    if end > size:
        raise InvalidInputError(
            f"{where} is cut short", found=f"{size:,} bytes", expected=f"{end:,}, as its arrays say"
        )


def _arrays(path: Path, where: str) -> list[ArrayPlace]:
    read = read_file_at(path)
    if path.name != "graph.dgl":
        return list(tensor_places(read, where).values())
    places = graph_places(read, where)
    ends = [array for arrays in places.formats.values() for array in arrays]
    return [*ends, *places.nodes.values(), *places.edges.values()]
