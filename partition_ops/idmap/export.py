"""Export the ID maps as Parquet, one file a type."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from partition_ops import artifacts
from partition_ops.config import IdMapConfig
from partition_ops.dgl_import import import_dgl
from partition_ops.errors import InvalidInputError
from partition_ops.graph.metadata import load_metadata
from partition_ops.progress import NoProgress, Progress
from partition_ops.storage import Store
from partition_ops.tasks import StageResult, Task, run_task

SCHEMA = pa.schema(
    [("orig_id", pa.int64()), ("new_id", pa.int64()), ("type_new_id", pa.int64()), ("part_id", pa.int32())]
)
OrigIds = dict[str, npt.NDArray[np.int64]]


def export_id_maps(
    config: IdMapConfig, source: Store, destination: Store, *, progress: Progress | None = None
) -> StageResult:
    """Write ``idmap/nodes/<type>.parquet`` and ``idmap/edges/<src:rel:dst>.parquet``.

    Columns: ``orig_id`` (type-wise ID of the input), ``new_id`` (homogeneous), ``type_new_id``
    (type-wise, counted over the partitions), ``part_id``; sorted by ``new_id``, a row group or more for
    each partition.

    Args:
        config: Options.
        source: Root of the input graph; only its ``metadata.json`` is read.
        destination: Root of the run, where every partition has been converted.
        progress: Shows the partitions read.

    Returns:
        The number of rows of all maps.

    Raises:
        InvalidInputError: A partition is missing.

    Peak memory: 40 bytes a node and edge of one partition, as many open files as there are types.
    """
    metadata = load_metadata(source, graph_name=config.graph_name)
    book = destination.read_json(artifacts.partition_config(metadata.graph_name))
    parts = range(book["num_parts"])

    def work(task: Task) -> dict[str, Any]:
        rows = 0
        with (progress or NoProgress()).step("Exporting ID maps", 2 * len(parts), "files") as advance:
            for name, ranges, key_of in (
                ("orig_nids.dgl", book["node_map"], artifacts.node_id_map),
                ("orig_eids.dgl", book["edge_map"], artifacts.edge_id_map),
            ):
                maps = {type_name: _IdMap(task, key_of(type_name)) for type_name in ranges}
                for part in parts:
                    found = _orig_ids(destination, artifacts.partition_file(part, name))
                    for type_name, writer in maps.items():
                        writer.append(found[type_name], ranges[type_name][part], part)
                    advance(1)
                rows += sum(writer.finish() for writer in maps.values())
        return {"rows": rows}

    return run_task(
        "idmap",
        destination,
        options=config.options(),
        after=["convert-config", *(f"convert-part{part}" for part in parts)],
        work=work,
    )


class _IdMap:
    """One Parquet file, written partition by partition."""

    def __init__(self, task: Task, key: str) -> None:
        self._task = task
        self._key = key
        self._tables: list[pa.Table] = []
        self._rows = 0

    def append(self, orig_ids: npt.NDArray[np.int64], new_range: list[int], part: int) -> None:
        begin, end = new_range
        if len(orig_ids) != end - begin:
            raise InvalidInputError(
                f"{self._key}: partition {part} is not the one that the partition config describes",
                found=f"{len(orig_ids)} original IDs",
                expected=f"{end - begin}",
                remedy="Run convert again.",
            )
        columns = [
            orig_ids,
            np.arange(begin, end),
            np.arange(self._rows, self._rows + len(orig_ids)),
            np.full(len(orig_ids), part, np.int32),
        ]
        self._tables.append(pa.table(columns, schema=SCHEMA))
        self._rows += len(orig_ids)

    def finish(self) -> int:
        with self._task.destination.create(self._key) as new, pq.ParquetWriter(new.path, SCHEMA) as writer:
            for table in self._tables:
                writer.write_table(table)
        self._task.wrote(new.published())
        return self._rows


def _orig_ids(destination: Store, key: str) -> OrigIds:
    dgl = import_dgl()
    tensors = dgl.data.utils.load_tensors(str(destination.local_copy(key)))
    return {name: tensor.numpy() for name, tensor in tensors.items()}
