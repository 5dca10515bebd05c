"""Export the ID maps: as Parquet, one file a type, and as the arrays that DGL's users know."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt

from partition_ops import artifacts
from partition_ops.config import IdMapConfig
from partition_ops.dgl_import import import_dgl
from partition_ops.errors import InvalidInputError
from partition_ops.graph.dropped import DroppedEdges, DroppedSelfLoops
from partition_ops.graph.metadata import load_metadata
from partition_ops.idmap.dropped import write_dropped_edges
from partition_ops.idmap.targets import ParquetTarget, PartMapTarget, Target, VectorTarget
from partition_ops.progress import Advance, NoProgress, Progress
from partition_ops.storage import Store
from partition_ops.tasks import StageResult, Task, read_record, run_task

OrigIds = dict[str, npt.NDArray[np.int64]]


def export_id_maps(
    config: IdMapConfig, source: Store, destination: Store, *, progress: Progress | None = None
) -> StageResult:
    """Write ``idmap/nodes/<type>.parquet`` and ``idmap/edges/<src:rel:dst>.parquet``.

    Columns: ``orig_id`` (type-wise ID of the input), ``new_id`` (homogeneous), ``type_new_id``
    (type-wise, counted over the partitions), ``part_id``; sorted by ``new_id``, a row group or more for
    each partition. The options add arrays; see `IdMapConfig`. Files appear when all those of nodes, or of
    edges, are whole. Edges that validation has dropped are in files of their own; see `write_dropped_edges`.

    Args:
        config: Options.
        source: Root of the input graph; only its ``metadata.json`` is read.
        destination: Root of the run, where every partition has been converted.
        progress: Shows the partitions read.

    Returns:
        The number of rows of all maps, and of dropped edges.

    Raises:
        InvalidInputError: A partition is missing, or is not the one that the partition config describes.

    Peak memory: 24 bytes a node and edge of one partition, 8 bytes a dropped edge, and 30 MiB; as many open
    files as there are types.
    """
    metadata = load_metadata(source, graph_name=config.graph_name)
    read_record(destination, "convert-config")  # says so where convert has not been done
    book = destination.read_json(artifacts.partition_config(metadata.graph_name))
    parts = range(book["num_parts"])
    dropped = [DroppedEdges(destination).digests, DroppedSelfLoops(destination).digests]

    def work(task: Task) -> dict[str, Any]:
        with (progress or NoProgress()).step("Exporting ID maps", 2 * len(parts), "files") as advance:
            nodes = NODES.targets(config, task, metadata.node_types, metadata.num_nodes)
            rows = _Export(task, NODES.orig_ids, book["node_map"], advance).run(nodes)
            edge_types = [str(edge_type) for edge_type in metadata.edge_types]
            edges = EDGES.targets(config, task, edge_types, metadata.num_edges)
            rows += _Export(task, EDGES.orig_ids, book["edge_map"], advance).run(edges)
        return {"rows": rows, "edges_dropped": write_dropped_edges(task, metadata)}

    return run_task(
        "idmap",
        destination,
        options={**config.options(), "dropped": dropped},
        after=["convert-config", *(f"convert-part{part}" for part in parts)],
        work=work,
    )


@dataclass(frozen=True)
class _Kind:
    """What differs between nodes and edges: the file of a partition that is read, and what is written."""

    orig_ids: str
    id_map: Callable[[str], str]
    vector: Callable[[str], str]
    part_map: str

    def targets(
        self, config: IdMapConfig, task: Task, types: Sequence[str], counts: Sequence[int]
    ) -> list[Target]:
        found: list[Target] = [ParquetTarget(task, name, self.id_map(name)) for name in types]
        if config.vectors:
            found += [VectorTarget(task, name, self.vector(name)) for name in types]
        if config.part_maps:
            offsets = dict(zip(types, accumulate(counts, initial=0), strict=False))
            found.append(PartMapTarget(task, self.part_map, offsets, sum(counts)))
        return found


NODES = _Kind("orig_nids.dgl", artifacts.node_id_map, artifacts.node_id_vector, artifacts.NODE_MAP)
EDGES = _Kind("orig_eids.dgl", artifacts.edge_id_map, artifacts.edge_id_vector, artifacts.EDGE_MAP)


class _Export:
    """Reads the original IDs of nodes, or of edges, partition by partition.

    Args:
        task: Knows the run.
        file: File of a partition that holds them.
        ranges: By type, the half-open range of new IDs of each partition.
        advance: Called for each partition.
    """

    def __init__(self, task: Task, file: str, ranges: dict[str, list[list[int]]], advance: Advance) -> None:
        self._store = task.destination
        self._file = file
        self._ranges = ranges
        self._advance = advance

    def run(self, targets: list[Target]) -> int:
        """Fill the targets; the number of IDs."""
        totals = {name: sum(end - begin for begin, end in ranges) for name, ranges in self._ranges.items()}
        with ExitStack() as stack:
            for target in targets:
                stack.enter_context(target.opened(totals))
            for part in range(len(next(iter(self._ranges.values())))):
                for type_name, begin, orig_ids in self._types(part):
                    for target in targets:
                        target.append(type_name, orig_ids, begin, part)
                self._advance(1)
        return sum(totals.values())

    def _types(self, part: int) -> Iterator[tuple[str, int, npt.NDArray[np.int64]]]:
        key = artifacts.partition_file(part, self._file)
        found = _orig_ids(self._store, key)
        for type_name, ranges in self._ranges.items():
            begin, end = ranges[part]
            if len(found[type_name]) != end - begin:
                raise InvalidInputError(
                    f"{self._store.uri_of(key)} is not of the partition that the partition config describes",
                    found=f"{len(found[type_name])} original IDs of type {type_name!r}",
                    expected=f"{end - begin}",
                    remedy="Run convert again.",
                )
            yield type_name, begin, found[type_name]


def _orig_ids(destination: Store, key: str) -> OrigIds:
    dgl = import_dgl()
    tensors = dgl.data.utils.load_tensors(str(destination.local_copy(key)))
    return {name: tensor.numpy() for name, tensor in tensors.items()}
