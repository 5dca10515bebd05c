"""Export the ID maps: Parquet files by type, arrays that DGL's users know, dropped edges, and negatives."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from partition_ops.artifacts import layout
from partition_ops.artifacts.book import Book, read_book
from partition_ops.artifacts.dropped_edges import ListedEdges
from partition_ops.artifacts.records import config_task, conversion_tasks, read_record
from partition_ops.artifacts.tasks import ArtifactWriter, Counters, StageResult, Task
from partition_ops.artifacts.verified_run import read_migration
from partition_ops.chunked.metadata import GraphMetadata, load_metadata
from partition_ops.chunked.names import MASKS
from partition_ops.chunked.negatives import read_negatives
from partition_ops.chunked.table_files import number_column
from partition_ops.errors import InvalidInputError
from partition_ops.formats.columns import StoredArray, in_group
from partition_ops.formats.format import Format, reading_format
from partition_ops.stages.idmap.carry_over import Numbering, write_carry_over
from partition_ops.stages.idmap.options import IdMapConfig
from partition_ops.storage import Store
from partition_ops.system.mapped_files import new_npy
from partition_ops.system.parallel import map_in_threads, unordered_in_threads
from partition_ops.system.progress import NoProgress, Progress

ID_MAP_SCHEMA = pa.schema(
    [("orig_id", pa.int64()), ("new_id", pa.int64()), ("type_new_id", pa.int64()), ("part_id", pa.int32())]
)
# IDs that ascend within a partition: twenty times smaller than plain, and faster to write and to read
ENCODING = {
    "use_dictionary": ["part_id"],
    "column_encoding": dict.fromkeys(["orig_id", "new_id", "type_new_id"], "DELTA_BINARY_PACKED"),
}
DROPPED_SCHEMA = pa.schema([("orig_id", pa.int64()), ("check", pa.string())])
CHECKS = ("duplicate_edges", "self_loop_edges")
NEGATIVES_IDS = ("src_orig_id", "dst_orig_id", "src_type_new_id", "dst_type_new_id")
NEGATIVES_SCHEMA = pa.schema(
    [
        *((name, pa.int64()) for name in NEGATIVES_IDS),
        ("part_id", pa.int32()),
        *((name, pa.bool_()) for name in MASKS),
    ]
)
ROWS = 1 << 20  # of a row group, and of the rows in memory at a time
DROPPED = -1  # partition of an edge that validation dropped
Ids = npt.NDArray[np.int64]
Ranges = dict[str, list[list[int]]]
Append = Callable[[str, Ids, int, int], None]
"""Adds what a partition owns of a type to a file. Several threads may call it, each with types of its own.

Its arguments are the type (a file passes over types that are not its own), (n,) int64 type-wise IDs of the
input in the order of the new IDs, the homogeneous new ID of the first one (those of the others follow), and
the partition. `id_map`, `vector` and `part_map` yield one each; the file appears when the context ends well.
"""


def export_id_maps(
    config: IdMapConfig, source: Store, destination: Store, *, progress: Progress | None = None
) -> StageResult:
    """Write ``idmap/nodes/<type>.parquet`` and ``idmap/edges/<src:rel:dst>.parquet``.

    Columns: ``orig_id`` (type-wise ID of the input), ``new_id`` (homogeneous), ``type_new_id``
    (type-wise, counted over the partitions), ``part_id``; sorted by ``new_id``, a row group or more for
    each partition. The options add arrays; see `IdMapConfig`. The maps appear when all are complete. Edges
    that validation has dropped are in files of their own; see `write_dropped_edges`. In an incremental run,
    so are the old nodes; see `write_carry_over`. Negatives of edge types are too; see `write_negatives`.

    Args:
        config: Options.
        source: Root of the input graph; only its ``metadata.json`` and negatives are read.
        destination: Root of the run, where every partition has been converted.
        progress: Shows the types.

    Returns:
        The number of rows of all maps, of dropped edges, of old nodes, and of negatives.

    Raises:
        UsageError: The first output format is not installed.
        InvalidInputError: A partition is missing, or is not the one that the book describes; or the previous
            run of an incremental run is gone.

    Peak memory: 60 MiB for each core, and 8 bytes a dropped edge; as many open files as there are types. In
    an incremental run also that of `write_carry_over`.
    """
    metadata = load_metadata(source, graph_name=config.graph_name)
    read_record(destination, config_task(destination))  # says so if convert has not been done
    book = read_book(destination, metadata.graph_name)
    form = reading_format(book)
    _check_types(metadata, book, source, destination)
    dropped = [*ListedEdges(destination, layout.DROPPED, layout.DROPPED_SELF_LOOPS).digests.values()]
    migration = read_migration(destination)

    def work(task: ArtifactWriter) -> Counters:
        exports = [
            _Export(task, form, NODES, book.node_ranges(), metadata.num_nodes),
            _Export(task, form, EDGES, book.edge_ranges(), metadata.num_edges),
        ]
        types = [(export, name) for export in exports for name in export.totals]
        types.sort(key=lambda item: -item[0].totals[item[1]])  # the largest first
        progress_step = (progress or NoProgress()).step("Exporting ID maps", len(types), "types")
        with progress_step as advance, ExitStack() as stack:
            for export in exports:
                export.open(config, stack)
            for _ in unordered_in_threads(lambda item: item[0].fill(item[1]), types):
                advance(1)
        rows = sum(export.totals[name] for export, name in types)
        carried = {"carried_over": write_carry_over(task, metadata)} if migration else {}
        negatives = {"negatives": write_negatives(task, source, metadata)} if metadata.negatives else {}
        return {"rows": rows, "edges_dropped": write_dropped_edges(task, metadata), **carried, **negatives}

    previous = {"previous": migration["previous"]["manifest_sha256"]} if migration else {}
    return Task(
        "idmap",
        destination,
        work,
        options={**config.options(), "dropped": dropped, **previous},
        after=conversion_tasks(destination, book.num_parts),
        outputs=[f"{layout.IDMAP}/", layout.NODE_MAP, layout.EDGE_MAP],
    ).run()


def _check_types(metadata: GraphMetadata, book: Book, source: Store, destination: Store) -> None:
    """Reject a graph that has other types than the output."""
    found = [*metadata.node_types, *map(str, metadata.edge_types)]
    expected = [*book.node_types, *book.edge_types]
    if found != expected:
        raise InvalidInputError(
            f"{source.uri} is not the graph that {destination.uri} was made from",
            found="the types " + ", ".join(found),
            expected=", ".join(expected),
            remedy="Use that graph. If it is ParMETIS's text, put its schema beside it, as"
            f" {book.graph_name}.json.",
        )


@dataclass(frozen=True)
class _Kind:
    """The differences between nodes and edges: the group of columns to read, and the files to write."""

    orig_ids: str
    id_map: Callable[[str], str]
    vector: Callable[[str], str]
    part_map: str


NODES = _Kind("node_orig_ids", layout.node_id_map, layout.node_id_vector, layout.NODE_MAP)
EDGES = _Kind("edge_orig_ids", layout.edge_id_map, layout.edge_id_vector, layout.EDGE_MAP)


class _Export:
    """Reads the original IDs of nodes, or of edges, type by type and partition by partition.

    Args:
        task: Knows the run.
        form: The format of the partitions.
        kind: Nodes or edges.
        ranges: By type, the half-open range of new IDs of each partition.
        counts: Number of nodes or edges of each type in the input, in the order of ``ranges``.

    Attributes:
        totals: Number of IDs of each type.
    """

    def __init__(
        self, task: ArtifactWriter, form: Format, kind: _Kind, ranges: Ranges, counts: Sequence[int]
    ) -> None:
        self._task = task
        self._store = task.destination
        self._form = form
        self._kind = kind
        self._ranges = ranges
        self._counts = counts
        self._parts: list[dict[str, StoredArray]] = []
        self._appends: list[Append] = []
        self.totals = {name: sum(end - begin for begin, end in found) for name, found in ranges.items()}

    def open(self, config: IdMapConfig, stack: ExitStack) -> None:
        """Open the files; they appear when the stack ends well."""
        task, kind, totals = self._task, self._kind, self.totals
        num_parts = len(next(iter(self._ranges.values())))

        def arrays_of(part: int) -> dict[str, StoredArray]:
            return in_group(self._form.arrays(self._store, part, group=kind.orig_ids), kind.orig_ids)

        self._parts = [*map_in_threads(arrays_of, range(num_parts), workers=self._store.requests)]
        files = [id_map(task, kind.id_map(name), name) for name in totals]
        if config.vectors:
            files += [vector(task, kind.vector(name), name, total) for name, total in totals.items()]
        if config.part_maps:
            offsets = dict(zip(totals, accumulate(self._counts, initial=0), strict=False))
            files.append(part_map(task, kind.part_map, offsets, sum(self._counts)))
        self._appends = [stack.enter_context(file) for file in files]

    def fill(self, type_name: str) -> None:
        """Write the IDs of a type; several threads may, each those of a type of its own."""
        for part, arrays in enumerate(self._parts):
            begin, end = self._ranges[type_name][part]
            orig_ids = self._orig_ids(part, type_name, arrays.get(type_name), end - begin)
            for append in self._appends:
                append(type_name, orig_ids, begin, part)

    def _orig_ids(self, part: int, type_name: str, stored: StoredArray | None, expected: int) -> Ids:
        """Return the original IDs of one type in one partition, mapped."""
        found = stored.shape[0] if stored is not None and stored.shape else 0
        if found != expected:
            folder = self._form.part_folder(part)
            raise InvalidInputError(
                f"{self._store.uri_of(stored.key if stored else folder)} is not of the partition that"
                " the book describes",
                found=f"{found} original IDs of type {type_name!r}",
                expected=f"{expected}",
                remedy="Run convert again.",
            )
        return np.empty(0, np.int64) if stored is None else stored.map(self._store)


@contextmanager
def id_map(task: ArtifactWriter, key: str, type_name: str) -> Iterator[Append]:
    """Write the ID map of one type."""
    count = 0

    def append(name: str, orig_ids: Ids, begin: int, part: int) -> None:
        nonlocal count
        if name != type_name:
            return
        for first in range(0, len(orig_ids), ROWS):
            rows = orig_ids[first : first + ROWS].copy()  # in the file it may begin at any byte
            new = np.arange(begin + first, begin + first + len(rows))
            typed = np.arange(count, count + len(rows))
            parts = np.full(len(rows), part, np.int32)
            columns = [number_column(numbers) for numbers in (rows, new, typed, parts)]
            writer.write_table(pa.table(columns, schema=ID_MAP_SCHEMA))
            count += len(rows)

    with task.create(key) as new, pq.ParquetWriter(new.path, ID_MAP_SCHEMA, **ENCODING) as writer:
        yield append


@contextmanager
def vector(task: ArtifactWriter, key: str, type_name: str, total: int) -> Iterator[Append]:
    """Write (total,) int64, original ID by type-wise new ID: what ``return_mapping=True`` of DGL returns."""
    count = 0

    def append(name: str, orig_ids: Ids, begin: int, part: int) -> None:
        nonlocal count
        if name == type_name:
            array[count : count + len(orig_ids)] = orig_ids
            count += len(orig_ids)

    with task.create(key) as new:
        array = new_npy(new.path, (total,), np.int64)
        yield append


@contextmanager
def part_map(task: ArtifactWriter, key: str, offsets: Mapping[str, int], total: int) -> Iterator[Append]:
    """Write (total,) int64, partition by homogeneous ID of the input graph, as DGL's ``node_map.npy``.

    Edges that validation dropped have `DROPPED`.

    Args:
        task: Collects what is written.
        key: Where to.
        offsets: First homogeneous ID of each type.
        total: Number of nodes or edges of the input.
    """

    def append(name: str, orig_ids: Ids, begin: int, part: int) -> None:
        for first in range(0, len(orig_ids), ROWS):
            array[offsets[name] + orig_ids[first : first + ROWS]] = part

    with task.create(key) as new:
        array = new_npy(new.path, (total,), np.int64)
        for begin in range(0, total, ROWS):
            array[begin : begin + ROWS] = DROPPED
        yield append


def write_dropped_edges(task: ArtifactWriter, metadata: GraphMetadata) -> int:
    """Write ``idmap/dropped/edges/<src:rel:dst>.parquet`` for every edge type that has dropped edges.

    Columns: ``orig_id`` (type-wise ID of the input, ascending) and ``check``, the check that dropped the
    edge: ``duplicate_edges`` or ``self_loop_edges``. An edge that is both counts as a self-loop if self-loops
    are dropped.

    Args:
        task: Knows the run, where ``validate`` has been done.
        metadata: The graph's metadata.

    Returns:
        The number of dropped edges.

    Peak memory: 8 bytes a dropped edge, and 30 MiB.
    """
    self_loops = ListedEdges(task.destination, layout.DROPPED_SELF_LOOPS).ids(metadata)
    dropped = ListedEdges(task.destination, layout.DROPPED).ids(metadata)
    for type_id, ids in dropped.items():
        loops = self_loops.get(type_id, np.empty(0, np.int64))
        key = layout.dropped_edge_map(str(metadata.edge_types[type_id]))
        with task.create(key) as new, pq.ParquetWriter(new.path, DROPPED_SCHEMA) as writer:
            for first in range(0, len(ids), ROWS):
                rows = ids[first : first + ROWS]
                here = np.searchsorted(loops, rows)
                is_loop = np.searchsorted(loops, rows, side="right") > here
                checks = pa.array(CHECKS).take(pa.array(is_loop.astype(np.int8)))
                writer.write_table(pa.table([rows, checks], schema=DROPPED_SCHEMA))
    return sum(map(len, dropped.values()))


def write_negatives(task: ArtifactWriter, source: Store, metadata: GraphMetadata) -> int:
    """Write ``idmap/negatives/<src:rel:dst>.parquet`` for every edge type that has negatives.

    Columns: ``src_orig_id`` and ``dst_orig_id`` (type-wise IDs of the input), ``src_type_new_id`` and
    ``dst_type_new_id`` (type-wise, counted over the partitions), ``part_id`` (the partition that has the
    destination, which would own the edge), and the masks ``train_mask``, ``val_mask``, ``test_mask``; in the
    order of the input.

    Args:
        task: Knows the run.
        source: Root of the input graph, whose files of negatives are read.
        metadata: Its metadata.

    Returns:
        The number of negatives.

    Raises:
        InvalidInputError: A file of negatives is damaged, or has an ID that no node has.

    Peak memory: 28 bytes a node of the graph.
    """
    counts = dict(zip(metadata.node_types, metadata.num_nodes, strict=True))
    numbering, rows = Numbering.read(task.destination, counts), 0
    for edge_type in metadata.negatives:
        src_type, _, dst_type = edge_type.split(":")
        new_src, new_dst = (numbering.type_wise(name)[1] for name in (src_type, dst_type))
        parts = numbering.parts[dst_type]
        key = layout.negative_map(edge_type)
        with task.create(key) as new, pq.ParquetWriter(new.path, NEGATIVES_SCHEMA) as writer:
            for block in read_negatives(source, metadata, edge_type):
                ids = (block.src, block.dst, new_src[block.src], new_dst[block.dst])
                masks = [block.masks[name] for name in MASKS]
                writer.write_table(pa.table([*ids, parts[block.dst], *masks], schema=NEGATIVES_SCHEMA))
                rows += len(block.src)
    return rows
