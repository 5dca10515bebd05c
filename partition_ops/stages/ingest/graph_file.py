"""``graph.yaml``: node types and edges in tables with keys, read and checked, as `GraphFile`."""

from __future__ import annotations

import codecs
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Any, TypeVar

from partition_ops.chunked.graph_writer import ORIG_ID
from partition_ops.chunked.names import LONGEST_NAME, check_graph_name, shortened
from partition_ops.errors import InvalidInputError, one_of
from partition_ops.stages.ingest.graph_types import (
    CATEGORIES,
    NEGATIVES,
    PARTS,
    EdgeTable,
    FeatureColumn,
    GraphFile,
    NodeTable,
    Split,
    TableFile,
    TypeTable,
)
from partition_ops.stages.ingest.options import is_saved_graph
from partition_ops.stages.ingest.yaml_document import parse_yaml
from partition_ops.storage import Store
from partition_ops.system.json_documents import check_document

SCHEMA = "graph_tables"
MOST_FEATURES = 4096  # of a type; all files are open at the same time
IN_QUERY = re.compile(r"\b(?:FROM|JOIN)\s+'((?:[^']|'')+)'", re.IGNORECASE)  # files
REVERSE = "rev_"  # and the relation: the default name of the relation of reverse edges
NUMBERS = frozenset(("boundaries", "buckets", "shares", "missing", "truncate", "bounds", *PARTS))
DEFAULT_ACTIONS = {
    "null_keys": "fail",
    "edge_keys": "fail",
    "duplicate_keys": "fail",
    "absent_keys": "fail",
    "overlapping_masks": "fail",
    "removed_nodes": "fail",
    **dict.fromkeys(("missing_classes", "new_classes", "unnamed_parts", "false_negatives"), "warn"),
    **dict.fromkeys(("unknown_categories", "new_categories", "out_of_range"), "warn"),
}
Type = TypeVar("Type", bound=TypeTable)
EXAMPLE = """\
# A graph in tables with keys. Paths are relative to this file; s3://bucket/key works as well.
graph_name: shop
# on_removed: isolate             # nodes of --previous that are gone: fail (default), keep, isolate, renumber

nodes:
  user:
    table: users/*.parquet          # Parquet, CSV, JSON lines, Arrow IPC, or a query
    key: user_id                    # or several columns: [country, number]
    features:
      age: {transform: standardise, missing: mean}
      country: {transform: one-hot, missing: ""}
      embedding:                    # a number, or a list of numbers of one length, as it is
    label: {column: churned, task: classification}
    split: {column: part, train: [train], val: [valid], test: [test]}
    # labels: {income: {column: income, task: regression}}  # more labels, each with its split
    # split: {masks: {train: is_train, val: is_valid, test: is_test}}
    # split: {shares: [0.8, 0.1, 0.1]}
    # split: {time: joined, val: 2024-01-01, test: 2024-02-01}
  item:
    table: {path: items.csv, delimiter: ";", types: {price: float64}}
    key: sku
    features:
      price: {transform: bucket, buckets: 10, missing: 0}
      # x: {columns: [width, height], transform: rank-gauss, bounds: [0, 1000]}   # or 'size_*'
      # genres: {transform: multi-hot, separator: ","}
      # maker: {transform: category}  # codes for an embedding
      brand: {transform: hash, buckets: 1024, missing: ""}
    text: [title]                   # kept as text beside the features
  tag:                              # no table: the keys that edges name

edges:
  user:rated:item:
    table: {sql: "SELECT user_id, sku, stars, at FROM ratings", database: shop.duckdb}
    src: user_id
    dst: sku
    weight: stars
    time: at
    # key: rating_id                # by which results for edges are joined to the table
    # label: fraud                  # edges have labels and splits as nodes have
    # split: {time: at, val: 2024-01-01, test: 2024-02-01}
    # negatives: {table: not_rated.csv}   # pairs that are no edges, for link prediction; also with a split
    reverse: true                   # item:rev_rated:user as well; or the name of the relation
    on_defect: {absent_keys: drop}  # fail (default), drop or add
  item:has:tag:
    table: tags/
    src: sku
    dst: tag
  # item:*:item:                    # an edge type for each value of a column
  #   table: {path: links.tsv, columns: [a, how, b], encoding: latin-1}  # without a header
  #   src: a
  #   dst: b
  #   relation: how
"""


def read_graph_file(source: Store, key: str, *, graph_name: str | None = None) -> GraphFile:
    """Read and check a ``graph.yaml``.

    Args:
        source: Its folder.
        key: Its name there.
        graph_name: Used instead of the name in the file.

    Raises:
        InvalidInputError: It is not YAML or violates its format; the message has the place.
    """
    found = parse_graph_file(source.read_bytes(key), source.uri_of(key))
    return replace(found, graph_name=graph_name) if graph_name else found


def graph_name_of(source: Store, key: str) -> str:
    """Return the name of the graph of a ``graph.yaml``, or of a ``graph.bin``, which has that of the file.

    Raises:
        InvalidInputError: The ``graph.yaml`` is missing or not valid, or DGL cannot use the name.
    """
    if not is_saved_graph(key):
        return read_graph_file(source, key).graph_name
    return check_graph_name(re.sub(r"[^A-Za-z0-9_]", "_", PurePosixPath(key).stem), source.uri_of(key))


def parse_graph_file(data: bytes, where: str) -> GraphFile:
    """Parse the content of a ``graph.yaml``; see `read_graph_file`."""
    return graph_of_document(parse_yaml(data, where, numbers=NUMBERS), where)


def graph_of_document(document: dict[str, Any], where: str) -> GraphFile:
    """Return the graph of a parsed ``graph.yaml``; see `read_graph_file`."""
    check_document(document, SCHEMA, where=where)
    actions = {**DEFAULT_ACTIONS, **document.get("on_defect", {})}
    actions["removed_nodes"] = document.get("on_removed", "fail")
    nodes = tuple(_node(name, spec or {}, actions, where) for name, spec in document["nodes"].items())
    edges = tuple(_edge(name, spec, actions, where) for name, spec in document["edges"].items())
    names = [node.name for node in nodes]
    for edge in edges:
        for end, _ in edge.ends:
            if end not in names:
                raise InvalidInputError(
                    f"{where}: {edge.about} name an unknown node type",
                    found=repr(end),
                    expected=one_of(names),
                    remedy=f"Add it to 'nodes'; '{end}:' alone makes a type of the keys that edges name.",
                )
    ends = {end for edge in edges for end, _ in edge.ends}
    lost = next((node.name for node in nodes if node.table is None and node.name not in ends), None)
    if lost is not None:
        raise InvalidInputError(
            f"{where}: the node type {lost!r} has no table, and no edges name it",
            expected="a table with a key, or edges of the type",
        )
    _check_reverses(edges, where)
    return GraphFile(where, document["graph_name"], nodes, edges, document)


def with_reverse_edges(graph: GraphFile) -> GraphFile:
    """Return the graph with reverse edges of each edge type, of the relation ``rev_<relation>``.

    Raises:
        InvalidInputError: There is a type of this name.
    """
    edges = tuple(replace(e, reverse=e.reverse or f"{REVERSE}{e.edge_type.rel}") for e in graph.edges)
    _check_reverses(edges, graph.where)
    return replace(graph, edges=edges)


def with_on_removed(graph: GraphFile, action: str) -> GraphFile:
    """Return the graph with another ``on_removed``."""
    nodes = (replace(node, actions={**node.actions, "removed_nodes": action}) for node in graph.nodes)
    return replace(graph, nodes=tuple(nodes))


def _check_reverses(edges: Sequence[EdgeTable], where: str) -> None:
    """Reject reverse edges whose type is there already, or that would share labels with the edges."""
    taken = {edge.name for edge in edges}
    for edge in edges:
        reverse = str(edge.reverse_type)
        if edge.relation and edge.reverse and edge.reverse.count("*") != 1:
            raise InvalidInputError(
                f"{where}: {edge.about}: the name of the reverse edges has no place for the relation",
                found=f"reverse: {edge.reverse}",
                expected="a * where the value goes, as in inverse_*",
            )
        if edge.reverse and reverse == edge.name and (edge.label or edge.split or edge.key):
            raise InvalidInputError(
                f"{where}: {edge.about} and their reverse edges would share key, label and split",
                found=f"reverse: {edge.reverse}",
                expected="another name, so that reverse edges are a type of their own",
            )
        if edge.reverse and reverse != edge.name and reverse in taken:
            raise InvalidInputError(
                f"{where}: {edge.about}: there is a type of the name of the reverse edges",
                found=repr(reverse),
                expected="a name of their own",
                remedy="Name the relation of the reverse edges: reverse: NAME.",
            )
        taken |= {reverse} if edge.reverse else {*()}


def _node(name: str, spec: Mapping[str, Any], actions: Mapping[str, str], where: str) -> NodeTable:
    place = f"{where}: nodes {name!r}"
    if any(column.lower() == ORIG_ID for column in spec.get("text", ())):
        raise InvalidInputError(
            f"{place}: a text cannot be called {ORIG_ID!r}",
            found="the name of the column with the IDs of nodes in files of texts",
            remedy="Rename the column, or give it another name in a query.",
        )
    node = NodeTable(
        name=name,
        table=_table(spec["table"], place) if "table" in spec else None,
        key=_columns(spec.get("key", ())),
        features=_features(spec.get("features", {}), place),
        text=tuple(spec.get("text", ())),
        **_label_and_split(spec, place),
        actions={**actions, **spec.get("on_defect", {})},
    )
    return _with_labels(node, spec, place)


def _edge(name: str, spec: Mapping[str, Any], actions: Mapping[str, str], where: str) -> EdgeTable:
    special = {kind: {"column": spec[kind]} for kind in ("weight", "time") if kind in spec}
    place, features = f"{where}: edges {name!r}", spec.get("features", {})
    if "relation" in spec and name.split(":")[1].count("*") != 1:
        raise InvalidInputError(
            f"{place}: 'relation' makes an edge type of each value of a column",
            found=f"the relation {name.split(':')[1]!r}",
            expected="a * where the value goes, as in 'entity:*:entity'",
        )
    twice = next((kind for kind in special if kind in features), None)
    if twice is not None:
        raise InvalidInputError(f"{place} have two features {twice!r}", expected="one")
    reverse = spec.get("reverse", False)
    edge = EdgeTable(
        name=name,
        table=_table(spec["table"], place),
        src=_columns(spec["src"]),
        dst=_columns(spec["dst"]),
        key=_columns(spec.get("key", ())),
        relation=spec.get("relation", ""),
        reverse=reverse if isinstance(reverse, str) else f"{REVERSE}{name.split(':')[1]}" if reverse else "",
        features=_features({**special, **features}, place),
        **_label_and_split(spec, place),
        actions={**actions, **spec.get("on_defect", {})},
    )
    return replace(_with_labels(edge, spec, place), negatives=_negatives(edge, spec))


def _negatives(edge: EdgeTable, spec: Mapping[str, Any]) -> EdgeTable | None:
    """Return the pairs that are no edges of a type, if there are any.

    Raises:
        InvalidInputError: The table has several relations.
    """
    if "negatives" not in spec:
        return None
    own, name = spec["negatives"], f"{edge.name}{NEGATIVES}"
    if edge.relation:
        raise InvalidInputError(
            f"{edge.about}: 'negatives' are of one edge type",
            found=f"relation: {edge.relation}",
            expected="an edge type without 'relation'",
            remedy="Write the type that has negatives by itself, with a query that selects its rows.",
        )
    return EdgeTable(
        name=name,
        table=_table(own["table"], name),
        src=_columns(own.get("src", edge.src)),
        dst=_columns(own.get("dst", edge.dst)),
        split=_split(own["split"], name) if "split" in own else None,
        actions={**edge.actions, **own.get("on_defect", {})},
    )


def _with_labels(one: Type, spec: Mapping[str, Any], where: str) -> Type:
    """Return a type with its further labels."""
    alone = replace(one, features=(), text=(), label="", split=None)
    return replace(
        one,
        labels={
            name: replace(alone, **_label_and_split({"label": label, **label}, f"{where}: label {name!r}"))
            for name, label in spec.get("labels", {}).items()
        },
    )


def _label_and_split(spec: Mapping[str, Any], where: str) -> dict[str, Any]:
    label = spec.get("label", "")
    return {
        "label": label if isinstance(label, str) else label["column"],
        "task": "classification" if isinstance(label, str) else label.get("task", "classification"),
        "split": _split(spec["split"], where) if "split" in spec else None,
    }


def _table(spec: str | Sequence[str] | Mapping[str, Any], where: str) -> TableFile:
    if not isinstance(spec, Mapping):
        return TableFile(_columns(spec))
    more: dict[str, Any] = {name: value for name, value in spec.items() if name not in ("path", "columns")}
    paths = _columns(spec.get("path", ()))
    if "sql" in spec and not {"database", "connection"} & {*spec}:
        paths = _paths_in(spec["sql"], where)
    if "encoding" in spec:
        try:
            more["encoding"] = codecs.lookup(spec["encoding"]).name
        except LookupError as error:
            raise InvalidInputError(
                f"{where}: there is no such encoding",
                found=repr(spec["encoding"]),
                expected="utf-8, latin-1, cp1252, utf-16, shift_jis, …",
            ) from error
    columns = tuple(spec.get("columns", ()))
    if len({*columns}) < len(columns):
        raise InvalidInputError(f"{where}: 'columns' has a name twice", found=", ".join(columns))
    return TableFile(paths, columns=columns, **more)


def _paths_in(sql: str, where: str) -> tuple[str, ...]:
    """Return the files and patterns that a query names behind FROM and JOIN, each once.

    Raises:
        InvalidInputError: There is none.
    """
    found = [path.replace("''", "'") for path in IN_QUERY.findall(sql)]
    if not found:
        raise InvalidInputError(
            f"{where}: 'sql' names neither a file nor a 'database' or 'connection'",
            found=repr(sql[:60]),
            expected="SELECT … FROM 'events/*.parquet' …",
        )
    return tuple(dict.fromkeys(found))


def _columns(spec: str | Sequence[str]) -> tuple[str, ...]:
    return (spec,) if isinstance(spec, str) else tuple(spec)


def _features(specs: Mapping[str, Any], where: str) -> tuple[FeatureColumn, ...]:
    found = []
    if len(specs) > MOST_FEATURES:
        raise InvalidInputError(
            f"{where}: there are too many features",
            found=f"{len(specs):,}",
            expected=f"at most {MOST_FEATURES:,}: each is a file of its own, here and in every partition",
            remedy="Join them into lists of numbers: a feature has a list in each row.",
        )
    for name, spec in specs.items():
        if not name.isprintable() or len(name.encode()) > LONGEST_NAME:
            raise InvalidInputError(
                f"{where}: the feature {shortened(name)} cannot be the name of a file",
                expected=f"a printable name of at most {LONGEST_NAME} bytes",
                remedy="Give it another name, and its column with 'column'.",
            )
        declared = {"column": name, **(spec or {})}
        lists = {key: tuple(declared.get(key, ())) for key in ("boundaries", "bounds")}
        lists["columns"] = _columns(declared.get("columns", ()))
        feature = FeatureColumn(name, **{**declared, **lists})
        _check_feature(feature, f"{where}: feature {name!r}")
        found.append(feature)
    return tuple(found)


def _check_feature(feature: FeatureColumn, where: str) -> None:
    kind, limits, buckets = feature.transform, feature.boundaries, feature.buckets
    problem = ""
    if kind == "bucket" and bool(limits) == bool(buckets):
        problem = "bucket needs either 'boundaries' or 'buckets'"
    elif kind == "hash" and not buckets:
        problem = "hash needs 'buckets'"
    elif (limits and kind != "bucket") or (buckets and kind not in ("bucket", "hash")):
        problem = f"{kind} takes neither 'boundaries' nor 'buckets'"
    elif list(limits) != sorted(set(limits)):
        problem = "the boundaries are not ascending"
    elif feature.dtype and kind != "none":
        problem = "'dtype' goes with the transform none"
    elif feature.columns and kind in CATEGORIES:
        problem = f"{kind} takes one column"
    elif feature.separator and feature.columns:
        problem = "'separator' goes with one column"
    elif feature.separator and kind in ("one-hot", "hash", "category"):
        problem = f"'separator' goes with multi-hot and with numbers, not with {kind}"
    elif (feature.truncate or feature.bounds) and kind in CATEGORIES:
        problem = f"'truncate' and 'bounds' are for numbers, not for {kind}"
    elif feature.bounds and feature.bounds[0] >= feature.bounds[1]:
        problem = "the first of the bounds is not less than the second"
    elif feature.missing == "mean" and kind in CATEGORIES:
        problem = f"there is no mean for {kind}"
    if problem:
        raise InvalidInputError(
            f"{where}: {problem}", remedy="'partition-ops ingest --example' has examples."
        )


def _split(spec: Mapping[str, Any], where: str) -> Split:
    named = {part: spec[part] for part in PARTS if part in spec}
    lists = {part: value for part, value in named.items() if isinstance(value, list)}
    problem = ""
    if "time" in spec:
        if lists or not named or "train" in named:
            problem = "'time' needs 'val', 'test' or both: the first time or number of the part"
    elif len(lists) < len(named):
        problem = "train, val and test are lists of values, unless there is 'time'"
    elif lists and "column" not in spec:
        problem = "train, val and test are values of 'column', which is missing"
    elif "column" in spec and "train" not in lists:
        problem = "'train' is missing: the values of the column that are for training"
    elif sum(spec.get("shares", ())) > 1 + 1e-9:
        problem = "the shares sum to more than 1"
    starts = {} if problem or "time" not in spec else {p: _start(named[p], where) for p in named}
    if starts.get("val", -math.inf) > starts.get("test", math.inf):
        problem = "'val' begins after 'test'"
    if problem:
        raise InvalidInputError(f"{where}: split: {problem}")
    values = {
        part: tuple(str(value).lower() if isinstance(value, bool) else str(value) for value in listed)
        for part, listed in lists.items()
    }
    return Split(
        spec.get("column", ""),
        values,
        spec.get("masks", {}),
        tuple(spec.get("shares", ())),
        spec.get("time", ""),
        starts,
    )


def _start(value: float | str, where: str) -> float:
    """Return the first time of a part, in seconds since 1970, or the number that it is."""
    if not isinstance(value, str):
        return value
    try:
        moment = datetime.fromisoformat(value)
    except ValueError as error:
        raise InvalidInputError(
            f"{where}: split: a part begins at what is no time",
            found=repr(value),
            expected="a number, a date such as 2024-01-31, or a time such as '2024-01-31 12:00:00'",
        ) from error
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
