"""`Spread`: validation in several tasks, which meet in ``scratch/validate/``; docs/decisions/validate.md.

Between tasks, `FileFindings`, and `Overlaps` with degrees, are a JSON document and an array each.
`run_alone` does some of the tasks in a process of its own.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from partition_ops.artifacts import layout
from partition_ops.artifacts.records import checked_copies
from partition_ops.artifacts.spread_tasks import SpreadTasks
from partition_ops.artifacts.tasks import ArtifactWriter, Counters
from partition_ops.chunked.duplicate_search import (
    Overlaps,
    PairGroups,
    Repeated,
    find_overlaps,
    merge_overlaps,
)
from partition_ops.chunked.edges import EdgeChunk
from partition_ops.chunked.feature_reader import ChunkLayout
from partition_ops.chunked.metadata import METADATA, GraphMetadata
from partition_ops.chunked.pair_buckets import PairReader, PairWriter
from partition_ops.stages.validate.connectivity import (
    Connectivity,
    DegreeFigures,
    Forest,
    degree_figures,
    full_degrees,
    sum_of_figures,
)
from partition_ops.stages.validate.cost import BUCKET_SEARCHED, buckets_of_range, work_seconds
from partition_ops.stages.validate.edge_scan import ROW_BITS, Pairs
from partition_ops.stages.validate.file_scan import FileFindings, ascending_ids, scan_files
from partition_ops.stages.validate.graph_facts import EdgeFile, FeatureFile
from partition_ops.stages.validate.measurement import Measurement, WholeFindings, conclude
from partition_ops.stages.validate.options import MEMORY_SHARE, ValidateConfig
from partition_ops.storage import Store, StoredObject
from partition_ops.storage.local_errors import explain_full_disk
from partition_ops.system.memory import planned_memory
from partition_ops.system.parallel import cores, map_in_threads
from partition_ops.system.progress import NoProgress, Progress
from partition_ops.system.temporary_folders import temporary_folder

Ids = npt.NDArray[np.int64]
Saved = tuple[dict[str, Any], Ids]  # a JSON document, and numbers that it counts
LEAST_ROWS = 1 << 24  # of a file that are searched, even if metadata.json says that there are less edges
LAST_ROW = (1 << ROW_BITS) - 1
INDEX, FOREST, FINDINGS, POSITIONS = "index.npy", "forest.npy", "findings.json", "positions.npy"


class Spread(SpreadTasks):
    """The tasks that scan the files of a graph, and search what they found.

    Args:
        config: Options; ``validation_tasks`` is the number of tasks of either kind.
        source: Root of the input graph.
        destination: Root of the run.
        progress: Shows the edges read.

    Raises:
        InvalidInputError: From the constructor: ``metadata.json`` cannot be used.
    """

    stage = "validate"
    scatter_name = layout.VALIDATE_SCATTER
    gather_name = layout.VALIDATE_GATHER
    folder = layout.VALIDATE_SCRATCH

    def __init__(
        self, config: ValidateConfig, source: Store, destination: Store, progress: Progress | None = None
    ) -> None:
        super().__init__(config.validation_tasks, source, destination, config.graph_name)
        self.memory = planned_memory(config.memory, MEMORY_SHARE)
        self.progress = progress or NoProgress()

    @cached_property
    def inputs(self) -> list[StoredObject]:
        """Identity of the files that exist."""
        return existing_objects(self.source, self.metadata)

    @property
    def seconds(self) -> float:
        return work_seconds(sum(self.metadata.num_edges), sum(entry.size for entry in self.inputs))

    def measure(self) -> Measurement:
        """Return what `measure_graph` returns, from what the tasks have found.

        Peak memory: 8 bytes a node, and 16 bytes for each edge that can be excluded or dropped.
        """
        forest = Forest(sum(self.metadata.num_nodes), sum(self.metadata.num_edges))
        store = self.destination
        scanned = []
        for group in self.numbers:
            keys = [layout.spread_group(self.folder, group, name) for name in (FOREST, POSITIONS, FINDINGS)]
            parents, positions, findings = checked_copies(store, f"{layout.VALIDATE_SCATTER}{group}", keys)
            forest.merge(np.load(parents, mmap_mode="r"))
            scanned.append((json.loads(findings.read_bytes()), np.load(positions)))
        searched = []
        for number in self.numbers:
            keys = [layout.spread_range(self.folder, number, name) for name in (POSITIONS, FINDINGS)]
            places, findings = checked_copies(store, f"{layout.VALIDATE_GATHER}{number}", keys)
            searched.append(load_range(json.loads(findings.read_bytes()), np.load(places)))
        overlaps = merge_overlaps(overlaps for overlaps, _ in searched)
        degrees = sum_of_figures(degrees for _, degrees in searched)
        whole = WholeFindings(overlaps, degrees, forest.components())
        found = load_findings(scanned)
        return conclude(self.metadata, self.source, found, whole, PairGroups(self.metadata))

    @cached_property
    def _groups(self) -> list[list[str]]:
        """The keys of the files of each group, of edges first."""
        keys = {entry.key for entry in self.inputs}
        edges = {key for data in self.metadata.edges for key in data.files} & keys
        return [
            of_edges + rest
            for of_edges, rest in zip(self.dealt(edges), self.dealt(keys - edges), strict=True)
        ]

    def _nodes(self, number: int) -> slice:
        """The nodes of a range."""
        nodes = sum(self.metadata.num_nodes)
        return slice(number * nodes // self.tasks, (number + 1) * nodes // self.tasks)

    def scatter_files(self, group: int, writer: ArtifactWriter) -> Counters:
        """Read the files of a group, and write what was found to ``scratch/validate/group<i>/``.

        Returns:
            The number of files, and of edges.

        Raises:
            InvalidInputError: There are more nodes than the memory can count.

        Peak memory: 6 bytes a node, and a block of edges with a copy, or a file of a feature that cannot be
        mapped, for each core.
        """
        metadata = self.metadata
        edges = sum(metadata.num_edges)
        connectivity = Connectivity(sum(metadata.num_nodes), edges)
        pairs, buckets = PairGroups(metadata), buckets_of_range(edges, self.tasks)
        files = self._groups[group]
        with ExitStack() as stack:
            scratch = Path(stack.enter_context(temporary_folder()))
            streams = [stack.enter_context((scratch / f"{n}").open("w+b")) for n in self.numbers]
            stack.enter_context(explain_full_disk(scratch))
            keys = PairWriter(pairs, streams, buckets)
            taken = _FirstRows(keys, max(edges, LEAST_ROWS))
            found = scan_files(self.source, metadata, files, taken, connectivity, self.progress)
            index = keys.finish()
            for number in self.numbers:
                with (
                    writer.create(layout.spread_block(self.folder, group, number)) as new,
                    new.path.open("wb") as stream,
                ):
                    new.keep_copy = True
                    keys.copy(number, stream)
                    nodes = self._nodes(number)
                    _write_degrees(
                        stream, connectivity.in_degrees.of(nodes), connectivity.out_degrees.of(nodes)
                    )
        document, positions = save_findings(found)
        writer.write_array(layout.spread_group(self.folder, group, INDEX), index)
        writer.write_array(layout.spread_group(self.folder, group, FOREST), connectivity.forest.flatten())
        writer.write_array(layout.spread_group(self.folder, group, POSITIONS), positions)
        writer.write_json(layout.spread_group(self.folder, group, FINDINGS), document)
        return {"files": len(files), "edges": int(index[:, 2:].sum())}

    def gather_range(self, number: int, writer: ArtifactWriter) -> Counters:
        """Search a range, and write what was found to ``scratch/validate/range<i>/``.

        Returns:
            The number of edges whose pair of nodes is in the range.

        Peak memory: for each core 24 bytes an edge of one of its buckets of about a million edges; fewer
        buckets are searched at a time if they take more than ``memory``. Then 24 bytes a node of the range.
        """
        read = self.scattered(number, INDEX)
        paths = [path for _, path in read]
        reader = PairReader(number, self.tasks, [(np.load(index), path) for index, path in read])
        overlaps = self._search(reader)
        degrees = self._degrees(number, [*zip(paths, reader.sizes, strict=True)])
        document, places = save_range(overlaps, degrees)
        writer.write_array(layout.spread_range(self.folder, number, POSITIONS), places)
        writer.write_json(layout.spread_range(self.folder, number, FINDINGS), document)
        return {"edges": reader.edges}

    def _search(self, reader: PairReader) -> Overlaps:
        """Find the edges of a range that overlap, some buckets at a time."""
        most = max(reader.largest_bucket, 1) * BUCKET_SEARCHED
        workers = max(1, min(cores(), self.memory // most))
        groups = PairGroups(self.metadata).groups
        jobs = product(range(reader.buckets), [group.edge_types for group in groups])
        return merge_overlaps(
            map_in_threads(lambda job: find_overlaps(reader.read(*job)), jobs, workers=workers)
        )

    def _degrees(self, number: int, files: Sequence[tuple[Path, int]]) -> list[DegreeFigures]:
        """Return the figures of the nodes of a range."""
        nodes = self._nodes(number)
        degrees = np.zeros((2, nodes.stop - nodes.start), np.int64)
        for path, begin in files:
            with path.open("rb") as stream:
                stream.seek(begin)
                for total in degrees:
                    total += _read_degrees(stream, len(total))
        return degree_figures(self.metadata, degrees[0], degrees[1], nodes.start)


@dataclass(frozen=True)
class _FirstRows:
    """Takes the edges of the first rows of each file; validation rejects a graph with files of more rows."""

    pairs: Pairs
    rows: int

    def add(self, type_id: int, places: Ids, src: Ids, dst: Ids) -> None:
        if len(places) and int(places[-1]) & LAST_ROW >= self.rows:
            first = int(places[0]) & ~LAST_ROW  # of the file
            keep = slice(int(np.searchsorted(places, first + self.rows)))
            places, src, dst = places[keep], src[keep], dst[keep]
        self.pairs.add(type_id, places, src, dst)


def _write_degrees(stream: BinaryIO, *found: tuple[npt.NDArray[np.uint8], Ids]) -> None:
    """Write what `CompactDegrees.of` returns: the number of carries, the lower bits, and the carries."""
    for low, carries in found:
        for array in (np.array([len(carries)]), low, carries):
            stream.write(np.ascontiguousarray(array).data)


def _read_degrees(stream: BinaryIO, nodes: int) -> Ids:
    """Return (nodes,) int64, degrees as `_write_degrees` has written them."""
    (count,) = np.fromfile(stream, np.int64, 1)
    return full_degrees(np.fromfile(stream, np.uint8, nodes), np.fromfile(stream, np.int64, count))


def save_findings(found: FileFindings) -> Saved:
    """Return findings as JSON, and the positions in them end to end, (n,) int64.

    The order of everything depends on the files alone, not on the threads that have read them.
    """
    positions = [
        (check, type_id, ids)
        for check, types in sorted(found.positions.items())
        for type_id, ids in sorted(types.items())
    ]
    document = {
        "defects": [
            [defect.check, defect.name, defect.count, defect.examples] for defect in found.defects.all()
        ],
        "edge_files": [
            [file.chunk.edge_type_id, file.chunk.index, file.chunk.key, file.rows, file.error]
            for file in sorted(found.edge_files, key=lambda file: (file.chunk.edge_type_id, file.chunk.index))
        ],
        "features": {
            name: [[file.index, file.key, _save_layout(file.layout), file.error] for file in files]
            for name, files in sorted(found.features.items())
        },
        "files": sorted(found.files, key=lambda entry: str(entry["path"])),
        "positions": [[check, type_id, len(ids)] for check, type_id, ids in positions],
    }
    return document, np.concatenate([np.empty(0, np.int64), *(ids for _, _, ids in positions)])


def load_findings(saved: Iterable[Saved]) -> FileFindings:
    """Return the findings of several tasks as one.

    Peak memory: 16 bytes for each position.
    """
    found = FileFindings()
    blocks: dict[str, dict[int, list[Ids]]] = {}
    for document, numbers in saved:
        for check, name, count, examples in document["defects"]:
            found.defects.add(check, name, count, examples)
        for type_id, index, key, rows, error in document["edge_files"]:
            found.edge_files.append(EdgeFile(EdgeChunk(type_id, index, key), rows, error))
        for name, files in document["features"].items():
            found.features.setdefault(name, []).extend(
                FeatureFile(index, key, _load_layout(layout), error) for index, key, layout, error in files
            )
        found.files += document["files"]
        at = 0
        for check, type_id, count in document["positions"]:
            blocks.setdefault(check, {}).setdefault(type_id, []).append(numbers[at : at + count])
            at += count
    found.positions = {
        check: {type_id: ascending_ids(ids) for type_id, ids in types.items()}
        for check, types in blocks.items()
    }
    return found


def _save_layout(layout: ChunkLayout | None) -> list[Any] | None:
    if layout is None:
        return None
    return [repr(np.lib.format.dtype_to_descr(layout.dtype)), list(layout.shape), layout.rows]


def _load_layout(saved: Sequence[Any] | None) -> ChunkLayout | None:
    if saved is None:
        return None
    description, shape, rows = saved
    dtype = np.lib.format.descr_to_dtype(ast.literal_eval(description))
    return ChunkLayout(dtype, tuple(shape), rows)


def save_range(overlaps: Overlaps, degrees: Sequence[DegreeFigures]) -> Saved:
    """Return what was found in a range as JSON, and the places of duplicates end to end, (n,) int64."""
    duplicates = overlaps.duplicates.items()
    document = {
        "duplicates": [
            [type_id, len(repeated.places), repeated.keys.tolist()] for type_id, repeated in duplicates
        ],
        "parallel": overlaps.parallel,
        "reversed": overlaps.reversed,
        "degrees": [asdict(one) for one in degrees],
    }
    return document, np.concatenate([np.empty(0, np.int64), *(one.places for _, one in duplicates)])


def load_range(document: Mapping[str, Any], numbers: Ids) -> tuple[Overlaps, list[DegreeFigures]]:
    """Return what `save_range` has saved."""
    duplicates, at = {}, 0
    for type_id, count, keys in document["duplicates"]:
        duplicates[type_id] = Repeated(numbers[at : at + count], np.array(keys, np.int64))
        at += count
    overlaps = Overlaps(duplicates, document["parallel"], document["reversed"])
    return overlaps, [DegreeFigures(**one) for one in document["degrees"]]


def existing_objects(source: Store, metadata: GraphMetadata) -> list[StoredObject]:
    """Return the identity of the metadata and of every file of a graph that exists."""
    return [entry for entry in source.stat_all([METADATA, *metadata.files()]) if entry is not None]


run_alone = Spread.run_alone
