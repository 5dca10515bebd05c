"""Our own ``pm_dglpart``: it reads the text files of a graph and writes those of its partitions.

Format: DGL guide, chapter 7.1. Every rank reads its share of the lines and writes the files of its own
partitions; none holds the graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from partition_ops.formats.parmetis import text_files as parmetis
from partition_ops.stages.partition.options import PartitionConfig
from partition_ops.stages.partition.pm_dglpart.text_graph import (
    Ids,
    NodeSlice,
    TextGraph,
    in_step,
    open_text,
    partition_slice,
    read_graph,
    read_nodes,
)

PARTIAL = ".partial"


@dataclass(frozen=True)
class Numbering:
    """New IDs: contiguous by partition, inside it by type, inside that in the old order."""

    new_ids: Ids  # (nodes of the graph,) int64, by old ID
    ends: Ids  # (partitions,) int64, end of the new IDs of each partition

    def part_of(self, old: Ids) -> Ids:
        return np.searchsorted(self.ends, self.new_ids[old], side="right")


def dglpart(config: PartitionConfig, folder: Path, comm: Any) -> dict[str, int]:
    """Partition ``<graph>_{nodes,edges,stats}.txt`` into ``p<i>-<graph>_{nodes,edges,stats}.txt``.

    Every rank calls this; the number of partitions is a multiple of that of the ranks. All hosts share the
    folder. Rows of a node file are in the order of new IDs. Duplicate edges and self-loops are written too,
    but ParMETIS does not get them.

    Returns:
        Numbers of nodes, edges, partitions, and edges between partitions.

    Raises:
        InvalidInputError: A file is missing or has a malformed row; names file and line.
        EngineError: ParMETIS is missing or failed.

    Peak memory: in each rank 8 bytes a node of the graph; of its own share 24 bytes a half-edge, 16 bytes a
    node and weight, and what ParMETIS takes; the text of its own partitions' nodes.
    """
    name = str(config.graph_name)
    text = open_text(folder, name, comm)
    nodes = read_nodes(text, comm)
    parts = partition_slice(config, read_graph(text, nodes.bounds, comm), nodes, comm)
    numbering = number_nodes(nodes, parts, config.num_parts, comm)
    writer = _Writer(folder, name, config.num_parts // comm.size, numbering, comm)
    cut = writer.write(text, int(nodes.bounds[comm.rank]))
    counts = dict(zip(("nodes", "edges"), text.stats, strict=False))
    return {**counts, "num_parts": config.num_parts, "cut_edges": comm.allreduce(cut)}


def number_nodes(nodes: NodeSlice, parts: npt.NDArray[np.int32], num_parts: int, comm: Any) -> Numbering:
    """Return the new IDs of all nodes, on every rank."""
    types = max(comm.allgather(int(nodes.types.max(initial=0)))) + 1
    groups = parts.astype(np.int64) * types + nodes.types
    counts = np.bincount(groups, minlength=num_parts * types)
    all_counts = np.stack(comm.allgather(counts))
    sizes = all_counts.sum(axis=0)
    first = np.cumsum(sizes) - sizes + all_counts[: comm.rank].sum(axis=0)
    order = np.argsort(groups, kind="stable")
    new_ids = np.empty(len(groups), np.int64)
    new_ids[order] = np.arange(len(groups)) + np.repeat(first - (np.cumsum(counts) - counts), counts)
    everywhere = np.concatenate(comm.allgather(new_ids))
    return Numbering(everywhere, np.cumsum(sizes.reshape(num_parts, types).sum(axis=1)))


class _Writer:
    """Sends every line to the rank of its partition, and writes the lines that it receives."""

    def __init__(self, folder: Path, name: str, per_rank: int, numbering: Numbering, comm: Any) -> None:
        self.folder = folder
        self.name = name
        self.per_rank = per_rank
        self.numbering = numbering
        self.comm = comm
        self.parts = range(comm.rank * per_rank, (comm.rank + 1) * per_rank)

    def write(self, text: TextGraph, first_node: int) -> int:
        """Write all files of this rank's partitions; return the number of cut edges in the lines it read."""
        nodes = self._write_nodes(text, first_node)
        edges, cut = self._write_edges(text)
        for part in self.parts:
            line = f"{nodes[part]} {edges[part]} {text.stats[2]}\n"
            self._partial(part, parmetis.stats_file).write_text(line)
        self.comm.barrier()  # no file appears before all are written
        for part in self.parts:
            for kind in (parmetis.nodes_file, parmetis.edges_file, parmetis.stats_file):
                partial = self._partial(part, kind)
                partial.replace(partial.with_name(partial.name.removesuffix(PARTIAL)))
        self.comm.barrier()
        return cut

    def _partial(self, part: int, kind: Any) -> Path:
        return self.folder / f"p{part}-{kind(self.name)}{PARTIAL}"

    def _write_nodes(self, text: TextGraph, first_node: int) -> dict[int, int]:
        pieces: dict[int, list[tuple[Ids, pa.Array]]] = {part: [] for part in self.parts}
        row = first_node
        for block in in_step(text.nodes.blocks(), self.comm):
            count = 0 if block is None else len(block.columns["node_type"])
            old = np.arange(row, row + count)
            row += count
            new = self.numbering.new_ids[old]
            lines = _lines([new], text.nodes.lines(block) if block else None)
            for part, keys, received in self._exchange(self.numbering.part_of(old), new, lines):
                pieces[part].append((keys, received))
        for part, of_part in pieces.items():
            with self._partial(part, parmetis.nodes_file).open("wb") as stream:
                if of_part:
                    order = np.argsort(np.concatenate([keys for keys, _ in of_part]))
                    received = pa.chunked_array([lines for _, lines in of_part]).combine_chunks()
                    _write(stream, received.take(pa.array(order)))
        return {part: sum(len(keys) for keys, _ in of_part) for part, of_part in pieces.items()}

    def _write_edges(self, text: TextGraph) -> tuple[dict[int, int], int]:
        counts, cut = dict.fromkeys(self.parts, 0), 0
        with ExitStack() as stack:
            files = {
                part: stack.enter_context(self._partial(part, parmetis.edges_file).open("wb"))
                for part in self.parts
            }
            for block in in_step(text.edges.blocks(), self.comm):
                src, dst = (
                    block.columns[name] if block else np.empty(0, np.int64) for name in ("src_id", "dst_id")
                )
                owners = self.numbering.part_of(dst)
                cut += int((self.numbering.part_of(src) != owners).sum())
                ids = [self.numbering.new_ids[src], self.numbering.new_ids[dst]]
                lines = _lines(ids, text.edges.lines(block) if block else None)
                for part, keys, received in self._exchange(owners, ids[0], lines):
                    counts[part] += len(keys)
                    _write(files[part], received)
        return counts, cut

    def _exchange(self, parts: Ids, keys: Ids, lines: pa.Array) -> list[tuple[int, Ids, pa.Array]]:
        """Send lines to the ranks of their partitions; return the received ones with their keys."""
        outgoing: list[list[tuple[int, Ids, pa.Array]]] = [[] for _ in range(self.comm.size)]
        order = np.argsort(parts, kind="stable")
        begins = np.unique(parts[order], return_index=True)[1]
        for rows in np.split(order, begins[1:]) if len(order) else []:
            part = int(parts[rows[0]])
            outgoing[part // self.per_rank].append((part, keys[rows], lines.take(pa.array(rows))))
        return [entry for received in self.comm.alltoall(outgoing) for entry in received]


def _lines(ids: Sequence[Ids], text: pa.Array | None) -> pa.Array:
    """Return lines with numbers put before them."""
    if text is None:
        return pa.array([], pa.large_binary())
    numbers = [pc.cast(pc.cast(pa.array(values), pa.large_string()), pa.large_binary()) for values in ids]
    return pc.binary_join_element_wise(*numbers, text, pa.scalar(b" ", pa.large_binary()))


def _write(stream: BinaryIO, lines: pa.Array) -> None:
    """Write lines, which include their line ends."""
    for part in lines.chunks if isinstance(lines, pa.ChunkedArray) else [lines]:
        offsets = np.frombuffer(part.buffers()[1], np.int64)[part.offset : part.offset + len(part) + 1]
        stream.write(memoryview(part.buffers()[2])[offsets[0] : offsets[-1]])
