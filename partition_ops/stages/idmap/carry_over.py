"""Maps from the new IDs of one run to those of another run over the same graph, also after it has grown."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from partition_ops.artifacts import layout
from partition_ops.artifacts.assignment import read_parts
from partition_ops.artifacts.graph_counts import (
    NodeCounts,
    StillThere,
    new_places,
    node_counts_of_graph,
    node_counts_of_run,
    still_there_of,
)
from partition_ops.artifacts.partition_book import PartitionBook, PartRanges
from partition_ops.artifacts.tasks import ArtifactWriter
from partition_ops.artifacts.verified_run import VerifiedRun, keeps_old_ids, open_earlier_run, read_migration
from partition_ops.chunked.id_converter import TypeNames
from partition_ops.chunked.metadata import GraphMetadata
from partition_ops.errors import InvalidInputError
from partition_ops.storage import Artifact, Store
from partition_ops.system.parallel import map_in_threads
from partition_ops.system.progress import Advance, NoProgress, Progress

DAMAGED = "Restore the file from a copy, or repeat the run."
COLUMNS = ("old_new_id", "old_type_new_id", "new_id", "type_new_id")
SCHEMA = pa.schema([(name, pa.int64()) for name in COLUMNS])
ROWS = 1 << 20  # of a row group, and of the rows in memory at a time
Ids = npt.NDArray[np.int64]
Lookup = Callable[[Any, Any], Any]
_Pair = tuple[PartRanges, PartRanges, Lookup, Lookup, Callable[[str], str]]


def carry_over(
    old_run: Store,
    new_run: Store,
    output: Store,
    *,
    edges: bool = True,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Write where every node and edge of an old run is in a new run, to keep learned embeddings.

    Files: ``nodes/<type>.parquet`` and ``edges/<src:rel:dst>.parquet``, each whole or not there. Columns,
    all int64: ``old_new_id`` (homogeneous) and ``old_type_new_id`` (type-wise) of the old run, ``new_id``
    and ``type_new_id`` of the new one; sorted by ``old_new_id``. So ``new[type_new_id] = old`` carries an
    array over whose rows are in the order of the old type-wise new IDs. Nodes that only one run has are in no
    map: new ones, and those that ``ingest`` has left out since. Edges are mapped only if both runs have the
    same number of them, and no node was left out.

    Args:
        old_run: Root of the run that the embeddings come from.
        new_run: Root of the run that they are wanted in.
        output: Where the files go.
        edges: Whether to map edges too.
        progress: Shows the rows written.

    Returns:
        The number of rows, and the URIs of the files.

    Raises:
        InvalidInputError: A run is not finished, a file of it is not as it was written, or the two are not of
            the same graph.

    Peak memory: 100 MiB beside what the kernel keeps of mapped files; 16 bytes of temporary disk for each
    node and edge of both runs.
    """
    old_run, new_run = (VerifiedRun(run, remedy=DAMAGED) for run in (old_run, new_run))
    kept = _left_out_between(old_run, new_run)
    with PartitionBook(old_run) as old, PartitionBook(new_run) as new:
        pairs: list[_Pair] = [(old.nodes, new.nodes, old.nid_new2orig, new.nid_orig2new, layout.node_id_map)]
        if edges:
            pairs.append((old.edges, new.edges, old.eid_new2orig, new.eid_orig2new, layout.edge_id_map))
        for before, after, *_ in pairs:
            _check_grown(before, after, kept, old_run.uri, new_run.uri)
        rows = sum(before.total for before, *_ in pairs)
        files = []
        with (progress or NoProgress()).step("Carrying IDs over", rows, "rows") as advance:
            for before, after, to_orig, to_new, key_of in pairs:
                for name in before.names.names:
                    key = key_of(name).removeprefix(f"{layout.IDMAP}/")
                    write_map(output, key, _batches(before, after, to_orig, to_new, name, kept), advance)
                    files.append(output.uri_of(key))
    return {"rows": rows, "output": files}


def _batches(
    before: PartRanges,
    after: PartRanges,
    to_orig: Lookup,
    to_new: Lookup,
    name: str,
    kept: StillThere,
) -> Iterator[tuple[Ids, Ids, Ids, Ids]]:
    """Yield the columns in blocks, by ascending type-wise new ID of the old run."""
    count, places = before.count(name), new_places(kept[name]) if name in kept else None
    for first in range(0, count, ROWS):
        old_typed = np.arange(first, min(count, first + ROWS))
        originals = to_orig(old_typed, name)
        if places is not None:
            originals = places[originals]
            old_typed, originals = old_typed[originals >= 0], originals[originals >= 0]
        typed = to_new(originals, name)
        yield before.to_homogeneous(old_typed, name), old_typed, after.to_homogeneous(typed, name), typed


def write_map(
    output: Store, key: str, batches: Iterator[tuple[Ids, ...]], advance: Advance = lambda rows: None
) -> Artifact:
    """Write the Parquet file of one type, block by block."""
    with output.create(key) as new, pq.ParquetWriter(new.path, SCHEMA) as writer:
        for columns in batches:
            writer.write_table(pa.table(list(columns), schema=SCHEMA))
            advance(len(columns[0]))
    return new.get_artifact()


def _left_out_between(old_run: Store, new_run: Store) -> StillThere:
    """Return which nodes of the old run have an ID in the new one, of types with others.

    Both may be runs over one graph, which has continued a third one.
    """
    counts = node_counts_of_run(old_run)
    old, new = (still_there_of(run, counts) for run in (old_run, new_run))
    same_graph = {*old} == {*new} and all(np.array_equal(old[name], new[name]) for name in old)
    return {} if same_graph else {name: one for name, one in new.items() if len(one) == counts[name]}


def _check_grown(before: PartRanges, after: PartRanges, kept: StillThere, old_uri: str, new_uri: str) -> None:
    """Reject two runs that cannot be of the same graph: nodes may have been added, edges may not."""
    kind = before.names.kind
    found, expected = (
        {name: ranges.count(name) for name in ranges.names.names} for ranges in (after, before)
    )
    if kind == "node":
        expected |= {name: int(one.sum()) for name, one in kept.items()}
        found = {name: min(found[name], expected[name]) for name in expected if name in found}
    different = sorted(name for name in {*found, *expected} if found.get(name) != expected.get(name))
    if kind != "node" and kept:
        different = different or sorted(expected)[:1]  # other edges, however many there are
    if different:
        name = different[0]
        raise InvalidInputError(
            f"{old_uri} and {new_uri} are not runs of the same graph: {kind} type {name!r} differs",
            found=f"{found.get(name, 'no such type')} in the new run",
            expected=f"{expected.get(name, 'no such type')}, as in the old one",
            remedy="Give two runs over the same input, with the same edges dropped by validation."
            if kind == "node"
            else "If the graph has changed, old and new edges cannot be distinguished: use --nodes-only.",
        )


def write_carry_over(task: ArtifactWriter, metadata: GraphMetadata) -> int:
    """Write ``idmap/carry_over/nodes/<type>.parquet`` in an incremental run in which nodes keep their IDs.

    The columns are those of `carry_over`; only old nodes have a row. The two assignments suffice.

    Args:
        task: Knows the run.
        metadata: The graph's metadata.

    Returns:
        The number of rows.

    Raises:
        InvalidInputError: The previous run is gone.

    Peak memory: 8 bytes a node of the graph, and 64 bytes a node of the largest types, one for each core.
    """
    migration = read_migration(task.destination)
    if migration is None or not keeps_old_ids(migration):
        return 0
    with open_earlier_run(task.destination) as run:
        before = node_counts_of_run(run)
        old = Numbering.read(run, before)
    new = Numbering.read(task.destination, node_counts_of_graph(metadata))
    kept = still_there_of(task.destination, before)

    def write(name: str) -> Artifact:
        (originals, _), (_, found) = old.type_wise(name), new.type_wise(name)
        rows = _batches(
            old.ranges, new.ranges, lambda ids, _: originals[ids], lambda ids, _: found[ids], name, kept
        )
        return write_map(task.destination, layout.carry_over_map(name), rows)

    for written in map_in_threads(write, before):
        task.wrote(written)
    return sum(int(kept[name].sum()) if name in kept else count for name, count in before.items())


@dataclass(frozen=True)
class Numbering:
    """New IDs of a run: contiguous by partition, by type inside it, and in the old order inside a type."""

    parts: dict[str, npt.NDArray[np.int32]]  # by node type, (nodes,) int32, the partition of each node
    ranges: PartRanges  # the new IDs of each partition

    @classmethod
    def read(cls, run: Store, counts: NodeCounts) -> Numbering:
        folder = run.child(layout.ASSIGNMENT)
        num_parts = int(folder.read_json(layout.ASSIGNMENT_META)["num_parts"])
        everything = read_parts(folder, counts, num_parts)
        places = np.cumsum(list(counts.values()))[:-1]
        parts = dict(zip(counts, np.split(everything, places), strict=True))
        sizes = {name: (*np.bincount(one, minlength=num_parts).tolist(),) for name, one in parts.items()}
        return cls(parts, PartRanges(TypeNames("node", list(counts)), sizes))

    def type_wise(self, name: str) -> tuple[Ids, Ids]:
        """Return original IDs by type-wise new ID, and the inverse; (nodes,) int64 each."""
        order = np.argsort(self.parts[name], kind="stable")
        inverse = np.empty(len(order), np.int64)
        inverse[order] = np.arange(len(order))
        return order, inverse
