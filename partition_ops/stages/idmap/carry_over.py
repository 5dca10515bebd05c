"""From the new IDs of one run to the new IDs of another one over the same graph, also after it has grown."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from partition_ops.artifacts import layout
from partition_ops.artifacts.partition_book import PartitionBook
from partition_ops.artifacts.partition_ranges import PartRanges
from partition_ops.artifacts.verified_run import VerifiedRun
from partition_ops.errors import InvalidInputError
from partition_ops.storage import Artifact, Store
from partition_ops.system.progress import Advance, NoProgress, Progress

DAMAGED = "Bring the file back from a copy, or do the run again."
COLUMNS = ("old_new_id", "old_type_new_id", "new_id", "type_new_id")
SCHEMA = pa.schema([(name, pa.int64()) for name in COLUMNS])
ROWS = 1 << 20  # of a row group, and of what is in memory at a time
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
    """Write where every node and edge of an old run is in a new run: after a re-partitioning, learned
    embeddings go on from there.

    Files: ``nodes/<type>.parquet`` and ``edges/<src:rel:dst>.parquet``, each whole or not there. Columns,
    all int64: ``old_new_id`` (homogeneous) and ``old_type_new_id`` (type-wise) of the old run, ``new_id``
    and ``type_new_id`` of the new one; sorted by ``old_new_id``. So ``new[type_new_id] = old`` carries an
    array over whose rows are in the order of the old type-wise new IDs. Nodes that only the new run has are
    in no map; edges are mapped only where both runs have the same number of them.

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
    with PartitionBook(old_run) as old, PartitionBook(new_run) as new:
        pairs: list[_Pair] = [(old.nodes, new.nodes, old.nid_new2orig, new.nid_orig2new, layout.node_id_map)]
        if edges:
            pairs.append((old.edges, new.edges, old.eid_new2orig, new.eid_orig2new, layout.edge_id_map))
        for before, after, *_ in pairs:
            _check_grown(before, after, old_run.uri, new_run.uri)
        rows = sum(before.total for before, *_ in pairs)
        files = []
        with (progress or NoProgress()).step("Carrying IDs over", rows, "rows") as advance:
            for before, after, to_orig, to_new, key_of in pairs:
                for name in before.names.names:
                    key = key_of(name).removeprefix(f"{layout.IDMAP}/")
                    write_map(output, key, _batches(before, after, to_orig, to_new, name), advance)
                    files.append(output.uri_of(key))
    return {"rows": rows, "output": files}


def _batches(
    before: PartRanges, after: PartRanges, to_orig: Lookup, to_new: Lookup, name: str
) -> Iterator[tuple[Ids, Ids, Ids, Ids]]:
    """The columns, in blocks, by ascending type-wise new ID of the old run."""
    count = before.count(name)
    for first in range(0, count, ROWS):
        old_typed = np.arange(first, min(count, first + ROWS))
        typed = to_new(to_orig(old_typed, name), name)
        yield before.to_homogeneous(old_typed, name), old_typed, after.to_homogeneous(typed, name), typed


def write_map(
    output: Store, key: str, batches: Iterator[tuple[Ids, ...]], advance: Advance = lambda rows: None
) -> Artifact:
    """Write the columns of one type, block by block."""
    with output.create(key) as new, pq.ParquetWriter(new.path, SCHEMA) as writer:
        for columns in batches:
            writer.write_table(pa.table(list(columns), schema=SCHEMA))
            advance(len(columns[0]))
    return new.get_artifact()


def _check_grown(before: PartRanges, after: PartRanges, old_uri: str, new_uri: str) -> None:
    """Refuse two runs that cannot be of the same graph: nodes may have been added, edges may not."""
    kind = before.names.kind
    found, expected = (
        {name: ranges.count(name) for name in ranges.names.names} for ranges in (after, before)
    )
    if kind == "node":
        found = {name: min(found[name], expected[name]) for name in expected if name in found}
    different = sorted(name for name in {*found, *expected} if found.get(name) != expected.get(name))
    if different:
        name = different[0]
        raise InvalidInputError(
            f"{old_uri} and {new_uri} are not runs of the same graph: {kind} type {name!r} differs",
            found=f"{found.get(name, 'no such type')} in the new run",
            expected=f"{expected.get(name, 'no such type')}, as in the old one",
            remedy="Give two runs over the same input, with the same edges dropped by validation."
            if kind == "node"
            else "Where the graph has grown, old edges cannot be told from new ones: give --nodes-only.",
        )
