"""Read the text files of a graph over several ranks, and partition its nodes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv as pa_csv

from partition_ops.artifacts.parhip import ParhipGraph
from partition_ops.errors import InvalidInputError
from partition_ops.formats.parmetis import text_files as parmetis
from partition_ops.formats.parmetis.text_table import TextTable
from partition_ops.stages.partition.metis_library import cut_graph
from partition_ops.stages.partition.mpi.parmetis_library import (
    FEWEST_NODES,
    PARMETIS_TOLERANCE,
    Library,
    Slice,
    Target,
    check_fits,
)
from partition_ops.stages.partition.options import PartitionConfig
from partition_ops.stages.partition.problem import Weights, can_be_shared, shares, tolerances
from partition_ops.stages.partition.small_graphs import even_out

Ids = npt.NDArray[np.int64]
BLOCK_BYTES = 16 << 20
NEWLINE = 10


@dataclass(frozen=True)
class LineBlock:
    """Some consecutive rows.

    Attributes:
        columns: (n,) int64 each, by name.
        text: (n,) the rows as they are in the file, each with its line end.
        places: (n,) int64, the offset of each in the file.
    """

    columns: dict[str, Ids]
    text: pa.LargeBinaryArray
    places: Ids


class TextSlice:
    """The lines of a file that begin in one of several equal shares of its bytes.

    Args:
        path: The file.
        columns: Names of the integers at the beginning of every row; the rest of the row is not parsed.
        rank: Number of the share.
        ranks: Number of shares.
    """

    def __init__(self, path: Path, columns: Sequence[str], *, rank: int, ranks: int) -> None:
        self.path = path
        self._columns = list(columns)
        if not path.is_file():
            raise InvalidInputError(
                f"There is no file {path}",
                remedy="Start the ranks in the folder with the three text files, which all hosts share.",
            )
        size = path.stat().st_size
        self._begin, self._end = (self._line_begin(size * share // ranks) for share in (rank, rank + 1))

    def blocks(self) -> Iterator[LineBlock]:
        """Yield the rows in order, about 16 MiB of text at a time.

        Raises:
            InvalidInputError: A row has too few fields, or one that is not an integer; names the line.
        """
        with self.path.open("rb") as stream:
            stream.seek(self._begin)
            while (place := stream.tell()) < self._end:
                data = stream.read(min(BLOCK_BYTES, self._end - place)) + stream.readline()
                if stream.tell() > self._end:  # one line too many
                    stream.seek(self._end)
                    data = data[: self._end - place]
                yield self._block(data, place)

    def wrong(self, block: LineBlock, good: npt.NDArray[np.bool_], problem: str, expected: str) -> None:
        """Raise an error if a row of a block is not good; the error names file and line."""
        if good.all():
            return
        row = int(np.flatnonzero(~good)[0])
        found = ", ".join(f"<{name}> {values[row]}" for name, values in block.columns.items())
        raise InvalidInputError(
            f"{self.path}, line {self._line(int(block.places[row]))}: {problem}",
            found=found,
            expected=expected,
        )

    def _line_begin(self, place: int) -> int:
        """Return the offset of the first line that starts at or after ``place``."""
        if place == 0:
            return 0
        with self.path.open("rb") as stream:
            stream.seek(place - 1)
            stream.readline()
            return stream.tell()

    def _block(self, data: bytes, place: int) -> LineBlock:
        data += b"" if data.endswith(b"\n") else b"\n"
        ends = np.flatnonzero(np.frombuffer(data, np.uint8) == NEWLINE) + 1
        offsets = np.concatenate([np.zeros(1, np.int64), ends])
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
        text = pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(ends), buffers)
        places = offsets[:-1] + place
        short = np.flatnonzero(np.diff(offsets) < 2 * len(self._columns))  # too short for a row
        if len(short):
            blank = [row for row in short.tolist() if not text[row].as_py().strip()]
            kept = np.delete(np.arange(len(ends)), blank)
            text, places = text.take(pa.array(kept)), places[kept]
        return LineBlock(self._parse(data, len(places)), text, places)

    def _parse(self, data: bytes, rows: int) -> dict[str, Ids]:
        if rows == 0:
            return {name: np.empty(0, np.int64) for name in self._columns}
        for plain in (False, True):
            try:
                table = _numbers(_cut(data, len(self._columns)) if plain else data, self._columns)
                if len(table[self._columns[0]]) == rows:
                    return table
            except pa.ArrowInvalid:
                pass  # other white space, rows with other numbers of attributes, or an error
        for _ in TextTable(self.path, str(self.path), self._columns).blocks():
            pass  # raises an error that names the line
        raise InvalidInputError(f"{self.path} cannot be read")

    def _line(self, place: int) -> int:
        with self.path.open("rb") as stream:
            blocks = (BLOCK_BYTES,) * (place // BLOCK_BYTES) + (place % BLOCK_BYTES,)
            return 1 + sum(stream.read(size).count(b"\n") for size in blocks)


def _numbers(data: bytes, columns: list[str]) -> dict[str, Ids]:
    width = len(data.split(b"\n", 1)[0].split())
    names = [*columns, *(f"attribute {i}" for i in range(width - len(columns)))]
    options: dict[str, Any] = {
        "read_options": pa_csv.ReadOptions(column_names=names),
        "parse_options": pa_csv.ParseOptions(delimiter=" ", quote_char=False),
        "convert_options": pa_csv.ConvertOptions(
            column_types={name: pa.int64() for name in columns}, include_columns=columns, null_values=[]
        ),
    }
    table = pa_csv.read_csv(pa.BufferReader(data), **options)
    return {name: table[name].to_numpy() for name in columns}


def _cut(data: bytes, fields: int) -> bytes:
    return b"".join(b" ".join(line.split()[:fields]) + b"\n" for line in data.splitlines())


@dataclass(frozen=True)
class TextGraph:
    """The text files as one rank sees them.

    Attributes:
        nodes: Lines of this rank's nodes.
        edges: Lines of this rank's share of the edges, which may join any nodes.
        stats: Numbers of nodes, edges and node weights.
    """

    nodes: TextSlice
    edges: TextSlice
    stats: tuple[int, int, int]


@dataclass(frozen=True)
class NodeSlice:
    """This rank's nodes.

    Attributes:
        bounds: (ranks + 1,) int64, where each rank's nodes begin.
        types: (nodes,) int64.
        weights: (nodes, weights) int64.
    """

    bounds: Ids
    types: Ids
    weights: Weights


def open_text(folder: Path, graph_name: str, comm: Any) -> TextGraph:
    """Open the three files of a graph.

    Raises:
        InvalidInputError: One is missing, or the stats file does not hold three numbers.
    """
    path = folder / parmetis.stats_file(graph_name)
    fields = path.read_text(errors="replace").split() if path.is_file() else []
    if len(fields) != 3 or not all(field.isascii() and field.isdigit() for field in fields):
        raise InvalidInputError(
            f"{path}, line 1: not the counts of a graph" if path.is_file() else f"There is no file {path}",
            expected="<num_nodes> <num_edges> <num_node_weights>",
        )
    nodes, edges, weights = (int(field) for field in fields)
    share = {"rank": comm.rank, "ranks": comm.size}
    node_slice = TextSlice(folder / parmetis.nodes_file(graph_name), parmetis.node_columns(weights), **share)
    edge_slice = TextSlice(folder / parmetis.edges_file(graph_name), parmetis.EDGE_COLUMNS, **share)
    return TextGraph(node_slice, edge_slice, (nodes, edges, weights))


def read_nodes(text: TextGraph, comm: Any) -> NodeSlice:
    """Return the types and weights of this rank's nodes.

    Raises:
        InvalidInputError: A row is malformed, types are not grouped, or the stats file has another count.
    """
    names = parmetis.node_columns(text.stats[2])
    types, weights = [np.empty(0, np.int64)], [np.empty((0, len(names) - 2), np.int64)]
    for block in text.nodes.blocks():
        columns = np.stack([block.columns[name] for name in names], axis=1)
        text.nodes.wrong(block, np.all(columns >= 0, axis=1), "a number is negative", "0 or more")
        types.append(columns[:, 0])
        last = types[-2][-1:]
        grouped = np.diff(columns[:, 0], prepend=last if len(last) else columns[:1, 0]) >= 0
        text.nodes.wrong(block, grouped, "nodes of a type are not together", "types in ascending order")
        weights.append(columns[:, 1:-1])
    kinds = np.concatenate(types)
    ends = [end for end in comm.allgather(kinds[[0, -1]].tolist() if len(kinds) else []) if end]
    if any(before[1] > after[0] for before, after in pairwise(ends)):
        raise InvalidInputError(f"{text.nodes.path}: nodes of a type are not together")
    counts = comm.allgather(len(kinds))
    _check_count(text.nodes.path, sum(counts), text.stats[0], "nodes")
    bounds = np.cumsum([0, *counts], dtype=np.int64)
    found = np.concatenate(weights)
    return NodeSlice(bounds, kinds, found if found.shape[1] else np.ones((len(kinds), 1), np.int64))


def _check_count(path: Path, found: int, expected: int, what: str) -> None:
    if found != expected:
        raise InvalidInputError(
            f"{path} has another number of rows than the stats file counts {what}",
            found=found,
            expected=expected,
        )


def in_step(blocks: Iterator[LineBlock], comm: Any) -> Iterator[LineBlock | None]:
    """Yield blocks while any rank has one, so that all ranks exchange equally often; None after the last."""
    while True:
        block = next(blocks, None)
        if not comm.allreduce(int(block is not None)):
            return
        yield block


def read_graph(text: TextGraph, bounds: Ids, comm: Any) -> ParhipGraph:
    """Return the distinct neighbours of this rank's nodes, in either direction, without self-loops.

    Raises:
        InvalidInputError: An end of an edge is not a node, or the stats file has another count.

    Peak memory: 24 bytes a half-edge of this rank.
    """
    total, rows = int(bounds[-1]), 0
    keys = [np.empty(0, np.int64)]
    for block in in_step(text.edges.blocks(), comm):
        ends = np.empty((2, 0), np.int64)
        if block is not None:
            ends = np.stack([block.columns["src_id"], block.columns["dst_id"]])
            good: npt.NDArray[np.bool_] = np.all((ends >= 0) & (ends < total), axis=0)
            text.edges.wrong(block, good, "an end of the edge is not a node", f"0 to {total - 1}")
            rows += ends.shape[1]
        keys.append(_exchange(ends[:, ends[0] != ends[1]], bounds, comm))
    _check_count(text.edges.path, comm.allreduce(rows), text.stats[1], "edges")
    begin, end = bounds[comm.rank], bounds[comm.rank + 1]
    node, neighbours = np.divmod(np.unique(np.concatenate(keys)), max(total, 1))
    degrees = np.bincount(node - begin, minlength=int(end - begin))
    return ParhipGraph(np.concatenate([np.zeros(1, np.int64), np.cumsum(degrees)]), neighbours)


def _exchange(ends: Ids, bounds: Ids, comm: Any) -> Ids:
    """Send both directions of some edges to the owners; return the received node * nodes + neighbour."""
    both = np.concatenate([ends, ends[::-1]], axis=1)
    owners = np.searchsorted(bounds, both[0], side="right") - 1
    keys = both[0] * bounds[-1] + both[1]
    received = comm.alltoall([np.unique(keys[owners == rank]) for rank in range(comm.size)])
    return np.concatenate(received)


def partition_slice(
    config: PartitionConfig, graph: ParhipGraph, nodes: NodeSlice, comm: Any
) -> npt.NDArray[np.int32]:
    """Return (nodes,) int32, the partition of this rank's nodes; METIS on rank 0 partitions a tiny graph.

    Raises:
        EngineError: The library is missing or failed, or the graph does not fit its integers.
    """
    half_edges = comm.allreduce(graph.num_half_edges)
    total = int(nodes.bounds[-1])
    if half_edges == 0 or total < FEWEST_NODES * max(comm.size, config.num_parts):
        return _partition_tiny(config, graph, nodes, comm)
    library = Library(config.mpi.library)
    sums = comm.allreduce(nodes.weights.sum(axis=0))
    check_fits(library.index.itemsize * 8, nodes=total, half_edges=half_edges, weight_sums=sums.tolist())
    heaviest = np.max(comm.allgather(nodes.weights.max(axis=0)), axis=0)
    used = can_be_shared(config, heaviest, sums)
    allowed = tolerances(config, heaviest[used], sums[used], PARMETIS_TOLERANCE)
    piece = Slice(nodes.bounds, graph.offsets, graph.neighbours, nodes.weights[:, used])
    return library.partition(piece, Target(config.num_parts, allowed, shares(config), config.seed), comm)


def _partition_tiny(
    config: PartitionConfig, graph: ParhipGraph, nodes: NodeSlice, comm: Any
) -> npt.NDArray[np.int32]:
    pieces = comm.gather((np.diff(graph.offsets), graph.neighbours, nodes.weights))
    parts = None
    if comm.rank == 0:
        degrees, neighbours, weights = (np.concatenate(values) for values in zip(*pieces, strict=True))
        whole = ParhipGraph(np.concatenate([np.zeros(1, np.int64), np.cumsum(degrees)]), neighbours)
        parts = np.split(_tiny(config, whole, weights), nodes.bounds[1:-1])
    mine: npt.NDArray[np.int32] = comm.scatter(parts)
    return mine


def _tiny(config: PartitionConfig, graph: ParhipGraph, weights: Weights) -> npt.NDArray[np.int32]:
    if config.num_parts == 1 or graph.num_half_edges == 0 or graph.num_nodes <= config.num_parts:
        return (np.arange(graph.num_nodes) % config.num_parts).astype(np.int32)  # nothing to cut
    used = weights.any(axis=0)
    weights = weights[:, used] if used.any() else np.ones((graph.num_nodes, 1), np.int64)
    weights = np.ascontiguousarray(weights)
    return even_out(config, graph, weights, cut_graph(config, graph, weights))
