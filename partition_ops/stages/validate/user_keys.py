"""The user's own keys and rows in findings, because IDs of ingested graphs are not the user's."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from partition_ops.chunked.edges import EdgeReader
from partition_ops.chunked.metadata import METADATA, GraphMetadata
from partition_ops.chunked.table_files import parquet_file
from partition_ops.errors import InvalidInputError, PartitionOpsError
from partition_ops.stages.validate.check import Defect
from partition_ops.storage import Store

NODE_IDS = "node_ids"  # in metadata.json, as `ingest` writes it: files with the keys of nodes, in order
ROWS = 1 << 16
ENDS = ("src", "dst")
ID_FIELDS = {0: (), 1: ("node_id",), 2: ENDS}  # of an example, by the number of its nodes
KEY_FIELDS = {1: ("key",), 2: ("src_key", "dst_key")}
KeyOf = dict[int, Any]
"""The keys of some nodes of a type, by type-wise ID."""
Keys = tuple[Any, ...]
"""The key of a node, or those of both ends of an edge."""
Rows = Mapping[Keys, Sequence[tuple[str, int]]]
FindRows = Callable[[Store, Mapping[str, Collection[Keys]]], Mapping[str, Rows]]
"""Returns the rows of the user's tables that nodes and edges come from, as file and row.

It takes the root of the graph and, by type, keys. Types are missing if their rows are not known.
"""


def with_keys(
    defects: Sequence[Defect], metadata: GraphMetadata, source: Store, find_rows: FindRows | None = None
) -> list[Defect]:
    """Return findings whose examples have the keys of their nodes, if ``metadata.json`` names keys.

    Those are the ends of an edge, or the node or edge that has a value of a feature. If a finding rejects the
    graph and the rows of the user's table are known, its examples have these rows, too, and their sentences
    name them instead of the IDs and files of the graph that was made of the table.

    Peak memory: 65,536 keys, the keys of the examples and a block of edges; that of ``find_rows``.
    """
    spec: Mapping[str, Any] = source.read_json(METADATA).get(NODE_IDS, {})
    if not spec:
        return list(defects)
    nodes = {one.key: one.type_name for one in metadata.node_features}
    edges = {str(one): str(one) for one in metadata.edge_types}
    edges |= {one.key: one.type_name for one in metadata.edge_features}
    ends = {str(one): (one.src, one.dst) for one in metadata.edge_types}
    types = {name: (of,) for name, of in nodes.items()} | {name: ends[of] for name, of in edges.items()}
    told = [
        _with_ends(one, edges[one.name], metadata, source) if one.name in edges else one for one in defects
    ]
    wanted: dict[str, set[int]] = defaultdict(set)
    for defect in told:
        for example in defect.examples if defect.name in types else ():
            for node_type, end in zip(types[defect.name], ID_FIELDS[len(types[defect.name])], strict=True):
                if isinstance(example.get(end), int):
                    wanted[node_type].add(example[end])
    keys = {name: _keys(source, spec.get(name), ids) for name, ids in wanted.items()}
    named = []
    for one in told:
        of_types = [keys.get(name, {}) for name in types.get(one.name, ())]
        named.append(replace(one, examples=[_named(example, of_types) for example in one.examples]))
    return named if find_rows is None else _with_rows(named, {**nodes, **edges}, source, find_rows)


def _with_ends(defect: Defect, edge_type: str, metadata: GraphMetadata, source: Store) -> Defect:
    """Return a finding that rejects the graph and is about values of edges with the ends of these edges."""
    wanted = sorted({one["edge_id"] for one in defect.examples if "edge_id" in one and "src" not in one})
    if defect.action != "fail" or not wanted:
        return defect
    reader, found = EdgeReader(source, metadata), {}
    with suppress(PartitionOpsError):  # the edges are damaged, too: the finding is told without ends
        for chunk in reader.chunks():
            if str(metadata.edge_types[chunk.edge_type_id]) != edge_type:
                continue
            for block in reader.blocks(chunk):
                for place in np.flatnonzero(np.isin(block.edge_ids, wanted)).tolist():
                    ends = int(block.src[place]), int(block.dst[place])
                    found[int(block.edge_ids[place])] = dict(zip(ENDS, ends, strict=True))
    examples = [{**one, **found.get(one.get("edge_id", -1), {})} for one in defect.examples]
    return replace(defect, examples=examples)


def _with_rows(
    defects: Sequence[Defect], type_of: Mapping[str, str], source: Store, find_rows: FindRows
) -> list[Defect]:
    """Return findings whose examples have the rows of tables, if they reject the graph and have keys."""
    wanted: dict[str, set[Keys]] = defaultdict(set)
    for defect in defects:
        if defect.action == "fail" and defect.name in type_of:
            wanted[type_of[defect.name]] |= {*filter(None, map(_keys_of, defect.examples))}
    found = find_rows(source, {name: keys for name, keys in wanted.items() if keys})
    return [
        replace(one, examples=[_located(example, found[type_of[one.name]]) for example in one.examples])
        if one.action == "fail" and type_of.get(one.name) in found
        else one
        for one in defects
    ]


def _keys_of(example: Mapping[str, Any]) -> Keys:
    """Return the keys of an example; none if they are not known."""
    fields = next((names for names in KEY_FIELDS.values() if names[0] in example), ())
    return tuple(example[name] for name in fields)


def _told(keys: Keys) -> str:
    return " -> ".join(map(repr, keys))


def _located(example: Mapping[str, Any], found: Rows) -> dict[str, Any]:
    """Return an example with the rows of its table, such as ``in ratings.csv, rows 3 and 7``."""
    keys = _keys_of(example)
    rows = found.get(keys, ())
    if not rows:
        return {**example}
    by_file: dict[str, list[str]] = defaultdict(list)
    for file, row in rows:
        by_file[file].append(str(row))
    places = "; ".join(f"{file}, {_numbers(some)}" for file, some in by_file.items())
    value = f"{example['value']} of " if "value" in example else ""
    return {
        **example,
        "table_rows": [{"file": file, "row": row} for file, row in rows],
        "sentence": f"{value}{_told(keys)}, in {places}",
    }


def _numbers(rows: Sequence[str]) -> str:
    """Return ``row 3``, or ``rows 3, 4 and 7``."""
    return f"row {rows[0]}" if len(rows) == 1 else f"rows {', '.join(rows[:-1])} and {rows[-1]}"


def _named(example: Mapping[str, Any], keys: Sequence[KeyOf]) -> dict[str, Any]:
    """Return an example with the keys of its nodes, if it has some and these are known."""
    found = [
        of_type.get(example[field]) if example.get(field) is not None else None
        for of_type, field in zip(keys, ID_FIELDS[len(keys)], strict=True)
    ]
    if not found or None in found:
        return {**example}
    names = KEY_FIELDS[len(found)]
    sentence = f"{_told(tuple(found))}, {example['sentence']}"
    return {**example, **dict(zip(names, found, strict=True)), "sentence": sentence}


def _keys(source: Store, spec: Mapping[str, Any] | None, wanted: set[int]) -> KeyOf:
    """Return the keys of some nodes; none if their files are not Parquet with the column, as of `ingest`."""
    found: KeyOf = {}
    row, column = 0, spec and spec.get("column")
    try:
        for key in spec["data"] if spec and column else ():
            with parquet_file(source.local_copy(key), key) as file:
                if column not in file.schema_arrow.names:
                    return {}
                for batch in file.iter_batches(batch_size=ROWS, columns=[column]):
                    here = [one for one in wanted if row <= one < row + batch.num_rows]
                    found |= {one: batch.column(0)[one - row].as_py() for one in here}
                    row += batch.num_rows
                    if len(found) == len(wanted):
                        return found
    except InvalidInputError:  # the finding is told without keys
        return {}
    return found
