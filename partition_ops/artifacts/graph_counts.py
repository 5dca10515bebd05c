"""Numbers of nodes of a graph, now or when it was partitioned, and whether its node IDs hold."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate, pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from partition_ops.artifacts import layout
from partition_ops.artifacts.documents import read_document
from partition_ops.artifacts.manifest import read_manifest
from partition_ops.chunked.metadata import PREVIOUS_IDS, GraphMetadata, read_metadata_document
from partition_ops.chunked.table_files import parquet_file
from partition_ops.errors import InvalidInputError
from partition_ops.storage import Store

INGEST_AGAIN = "Ingest the tables again."
NodeCounts = Mapping[str, int]
"""Numbers of nodes by type, in the order of the types."""
StillThere = Mapping[str, npt.NDArray[np.bool_]]
"""By type with nodes that were left out, (previous nodes,) which have an ID now; their order is the same."""


def node_counts_of_run(run: Store) -> NodeCounts:
    """Return the numbers of nodes of the input of a finished run.

    Raises:
        InvalidInputError: The run is not finished, or its schema is broken.
    """
    schema = read_document(run, layout.schema_file(read_manifest(run)["graph_name"]), "schema")
    return {name: end - begin for name, (begin, end) in schema["nid"].items()}


def node_counts_of_graph(metadata: GraphMetadata) -> NodeCounts:
    """Return the numbers of nodes of an input graph."""
    return dict(zip(metadata.node_types, metadata.num_nodes, strict=True))


def find_id_change(before: NodeCounts, now: NodeCounts, still_there: StillThere | None = None) -> str | None:
    """Return why the type-wise IDs of old nodes are not known any more, as a clause, or None if they are.

    New node types may stand anywhere among the old ones. Edges and edge types may be added and removed.
    """
    for name, count in before.items():
        if name not in now:
            return f"the node type {name!r} is gone"
        kept = (still_there or {}).get(name)
        if kept is not None and len(kept) != count:
            return f"{name!r} was renumbered after a graph with {len(kept)} nodes of the type, not {count}"
        count = count if kept is None else int(kept.sum())
        if now[name] < count:
            return f"the node type {name!r} has shrunk from {count} to {now[name]} nodes"
    order = [name for name in now if name in before]
    if order != list(before):
        return f"the order of the node types has changed from {_listed(before)} to {_listed(order)}"
    return None


def spread_old_values(
    before: NodeCounts,
    now: NodeCounts,
    values: npt.NDArray[np.int32],
    missing: int,
    still_there: StillThere | None = None,
) -> npt.NDArray[np.int32]:
    """Return values of the old nodes as values of all nodes.

    Args:
        before: Numbers of nodes of the old graph.
        now: Those of the grown graph.
        values: (old nodes,) by homogeneous ID of the old graph.
        missing: Value of the new nodes.
        still_there: Which old nodes have an ID, of types with others.

    Returns:
        (nodes,) int32, by homogeneous ID.
    """
    result = np.full(sum(now.values()), missing, np.int32)
    begins = dict(zip(now, accumulate(now.values(), initial=0), strict=False))
    ends = accumulate(before.values(), initial=0)
    for name, (begin, end) in zip(before, pairwise(ends), strict=True):
        kept = (still_there or {}).get(name)
        old = values[begin:end] if kept is None else values[begin:end][kept]
        result[begins[name] : begins[name] + len(old)] = old
    return result


def still_there_in(source: Store) -> StillThere:
    """Return which nodes of the graph that an input continues have an ID in it.

    Raises:
        InvalidInputError: A file of ``previous_ids`` is missing, damaged, or does not fit ``metadata.json``.

    Peak memory: 1 byte a previous node, and 8 bytes a node of a type.
    """
    found = {}
    for name, spec in read_metadata_document(source).get(PREVIOUS_IDS, {}).items():
        found[name] = np.zeros(spec["num_previous"], np.bool_)
        last = -1
        for key in spec["data"]:
            ids = _previous_ids(source, key, spec["column"])
            steps = np.diff(ids, prepend=last)
            wrong = np.flatnonzero((steps <= 0) | (ids < 0) | (ids >= len(found[name])))
            if len(wrong):
                row = int(wrong[0])
                raise InvalidInputError(
                    f"{source.uri_of(key)} ({name!r}): the ID in row {row} is out of order or range",
                    found=f"{ids[row]} after {ids[row - 1] if row else last}",
                    expected=f"ascending IDs from 0 to {len(found[name]) - 1}",
                    remedy=INGEST_AGAIN,
                )
            found[name][ids] = True
            last = int(ids[-1]) if len(ids) else last
    return found


def _previous_ids(source: Store, key: str, column: str) -> npt.NDArray[np.int64]:
    """Return a column of a Parquet file, which must have integers."""
    where = source.uri_of(key)
    with parquet_file(source.local_copy(key), where) as file:
        known = {field.name: field.type for field in file.schema_arrow}
        if not pa.types.is_integer(known.get(column, pa.null())):
            raise InvalidInputError(
                f"{where} has no column {column!r} of integers",
                found=", ".join(f"{name}: {kind}" for name, kind in known.items()) or "no columns",
                remedy=INGEST_AGAIN,
            )
        ids = file.read(columns=[column]).column(0)
        if ids.null_count:
            raise InvalidInputError(f"{where}: an ID is missing", found="null", remedy=INGEST_AGAIN)
        found: npt.NDArray[np.int64] = ids.cast(pa.int64()).to_numpy()
        return found


def still_there_of(run: Store, counts: NodeCounts) -> StillThere:
    """Return the same of a run, as ``partition`` has written it."""
    folder = run.child(layout.ASSIGNMENT)
    keys = {name: layout.assignment_still_there(name) for name in counts}
    return {
        name: np.load(folder.local_copy(key), allow_pickle=False)
        for name, key in keys.items()
        if folder.exists(key)
    }


def new_places(still_there: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    """Return (previous nodes,) the IDs of nodes now by their previous IDs, -1 for those without one."""
    return np.where(still_there, np.cumsum(still_there) - 1, -1)


def _listed(names: Mapping[str, int] | list[str]) -> str:
    return ", ".join(map(repr, names))
