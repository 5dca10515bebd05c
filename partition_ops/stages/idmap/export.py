"""Export the ID maps: as Parquet, one file a type, and as the arrays that DGL's users know."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from partition_ops.artifacts import layout
from partition_ops.artifacts.dropped_edges import DroppedEdges, DroppedSelfLoops
from partition_ops.artifacts.manifest import read_partition_config
from partition_ops.artifacts.tasks import (
    CONFIG_TASK,
    ArtifactWriter,
    StageResult,
    conversion_tasks,
    read_record,
    run_task,
)
from partition_ops.artifacts.verified_run import read_migration
from partition_ops.chunked.metadata import load_metadata
from partition_ops.errors import InvalidInputError
from partition_ops.formats.dgl.array_places import ArrayPlace, read_file_at, tensor_places
from partition_ops.stages.idmap.dropped import write_dropped_edges
from partition_ops.stages.idmap.followed import write_carry_over
from partition_ops.stages.idmap.options import IdMapConfig
from partition_ops.stages.idmap.targets import ParquetTarget, PartMapTarget, Target, VectorTarget
from partition_ops.storage import Store
from partition_ops.system.parallel import unordered_in_threads
from partition_ops.system.progress import Advance, NoProgress, Progress


def export_id_maps(
    config: IdMapConfig, source: Store, destination: Store, *, progress: Progress | None = None
) -> StageResult:
    """Write ``idmap/nodes/<type>.parquet`` and ``idmap/edges/<src:rel:dst>.parquet``.

    Columns: ``orig_id`` (type-wise ID of the input), ``new_id`` (homogeneous), ``type_new_id``
    (type-wise, counted over the partitions), ``part_id``; sorted by ``new_id``, a row group or more for
    each partition. The options add arrays; see `IdMapConfig`. Files appear when all those of nodes, or of
    edges, are whole. Edges that validation has dropped are in files of their own; see `write_dropped_edges`.
    Where the run has followed an earlier one, so are the old nodes; see `write_carry_over`.

    Args:
        config: Options.
        source: Root of the input graph; only its ``metadata.json`` is read.
        destination: Root of the run, where every partition has been converted.
        progress: Shows the types.

    Returns:
        The number of rows of all maps, of dropped edges, and of old nodes.

    Raises:
        InvalidInputError: A partition is missing, or is not the one that the partition config describes; or
            the run that this one has followed is not there any more.

    Peak memory: 60 MiB for each core, and 8 bytes a dropped edge; as many open files as there are types. In
    an incremental run also that of `write_carry_over`.
    """
    metadata = load_metadata(source, graph_name=config.graph_name)
    read_record(destination, CONFIG_TASK)  # says so where convert has not been done
    book = read_partition_config(destination, metadata.graph_name)
    dropped = [DroppedEdges(destination).digests, DroppedSelfLoops(destination).digests]
    followed = read_migration(destination)

    def work(task: ArtifactWriter) -> dict[str, Any]:
        types = (*metadata.node_types, *metadata.edge_types)
        with (progress or NoProgress()).step("Exporting ID maps", len(types), "types") as advance:
            nodes = NODES.targets(config, task, metadata.node_types, metadata.num_nodes)
            rows = _Export(task, NODES.orig_ids, book["node_map"], advance).run(nodes)
            edge_types = [str(edge_type) for edge_type in metadata.edge_types]
            edges = EDGES.targets(config, task, edge_types, metadata.num_edges)
            rows += _Export(task, EDGES.orig_ids, book["edge_map"], advance).run(edges)
        carried = {"carried_over": write_carry_over(task, metadata)} if followed else {}
        return {"rows": rows, "edges_dropped": write_dropped_edges(task, metadata), **carried}

    return run_task(
        "idmap",
        destination,
        options={**config.options(), "dropped": dropped, **_of_followed(followed)},
        after=conversion_tasks(book["num_parts"]),
        work=work,
    )


def _of_followed(migration: dict[str, Any] | None) -> dict[str, Any]:
    """What the carry-over maps depend on besides the new partitions."""
    return {"previous": migration["previous"]["manifest_sha256"]} if migration else {}


@dataclass(frozen=True)
class _Kind:
    """What differs between nodes and edges: the file of a partition that is read, and what is written."""

    orig_ids: str
    id_map: Callable[[str], str]
    vector: Callable[[str], str]
    part_map: str

    def targets(
        self, config: IdMapConfig, task: ArtifactWriter, types: Sequence[str], counts: Sequence[int]
    ) -> list[Target]:
        found: list[Target] = [ParquetTarget(task, name, self.id_map(name)) for name in types]
        if config.vectors:
            found += [VectorTarget(task, name, self.vector(name)) for name in types]
        if config.part_maps:
            offsets = dict(zip(types, accumulate(counts, initial=0), strict=False))
            found.append(PartMapTarget(task, self.part_map, offsets, sum(counts)))
        return found


NODES = _Kind("orig_nids.dgl", layout.node_id_map, layout.node_id_vector, layout.NODE_MAP)
EDGES = _Kind("orig_eids.dgl", layout.edge_id_map, layout.edge_id_vector, layout.EDGE_MAP)


class _Export:
    """Reads the original IDs of nodes, or of edges, type by type and partition by partition.

    Args:
        task: Knows the run.
        file: File of a partition that holds them.
        ranges: By type, the half-open range of new IDs of each partition.
        advance: Called for each type.
    """

    def __init__(
        self, task: ArtifactWriter, file: str, ranges: dict[str, list[list[int]]], advance: Advance
    ) -> None:
        self._store = task.destination
        self._file = file
        self._ranges = ranges
        self._advance = advance

    def run(self, targets: list[Target]) -> int:
        """Fill the targets, several types at a time; the number of IDs."""
        totals = {name: sum(end - begin for begin, end in ranges) for name, ranges in self._ranges.items()}
        parts = [self._open(part) for part in range(len(next(iter(self._ranges.values()))))]

        def fill(type_name: str) -> None:
            for part, file in enumerate(parts):
                orig_ids = file.orig_ids(type_name, self._ranges[type_name][part])
                for target in targets:
                    target.append(type_name, orig_ids, self._ranges[type_name][part][0], part)
            self._advance(1)

        with ExitStack() as stack:
            for target in targets:
                stack.enter_context(target.opened(totals))
            for _ in unordered_in_threads(fill, sorted(totals, key=lambda name: -totals[name])):
                pass
        return sum(totals.values())

    def _open(self, part: int) -> _PartFile:
        key = layout.partition_file(part, self._file)
        path, where = self._store.local_copy(key), self._store.uri_of(key)
        return _PartFile(path, where, tensor_places(read_file_at(path), where))


@dataclass(frozen=True)
class _PartFile:
    """The original IDs of one partition, in DGL's tensor file."""

    path: Path
    where: str
    places: dict[str, ArrayPlace]

    def orig_ids(self, type_name: str, expected: Sequence[int]) -> npt.NDArray[np.int64]:
        """Those of one type, mapped; ``expected`` is the range of their new IDs."""
        begin, end = expected
        place = self.places.get(type_name)
        found = place.shape[0] if place is not None and place.shape else 0
        if found != end - begin:
            raise InvalidInputError(
                f"{self.where} is not of the partition that the partition config describes",
                found=f"{found} original IDs of type {type_name!r}",
                expected=f"{end - begin}",
                remedy="Run convert again.",
            )
        if place is None or not found:
            return np.empty(0, np.int64)
        mapped = np.memmap(self.path, np.uint8, "r", place.offset, (place.num_bytes,))
        return mapped.view(np.int64)
