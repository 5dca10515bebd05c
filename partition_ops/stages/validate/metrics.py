"""The metrics of a graph as four tables, a row for each type or feature, and what is expected of them.

Expectations, ours and the user's, are about these tables. A check has a column in the tables that it counts
its findings in, and an expectation on it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from partition_ops.stages.validate.check import Check
from partition_ops.stages.validate.checks import CHECKS
from partition_ops.stages.validate.connectivity import DEGREE_BINS

if TYPE_CHECKING:
    from partition_ops.chunked.metadata import Feature, GraphMetadata
    from partition_ops.stages.validate.measurement import Measurement

Row = dict[str, Any]
Tables = dict[str, list[Row]]
ROWS = {"graph": "graph", "node_types": "node type", "edge_types": "edge type", "features": "feature"}
"""The meaning of a row of each table, for messages."""

_MEASURED = {
    "graph": ("name", "nodes", "edges", "components", "connected_share"),
    "node_types": (
        *("name", "nodes", "first_id", "start", "end", "gap_before", "isolated_nodes", "isolated_share"),
        *("max_in_degree", "max_out_degree", "mean_degree", "features", "nodes_without_features_share"),
    ),
    "edge_types": ("name", "edges", "edges_expected", "files", "files_expected"),
    "features": (
        *("name", "dtype", "row_shape", "rows", "rows_expected", "files", "files_expected"),
        "nonfinite_share",
    ),
}
METRICS: dict[str, tuple[str, ...]] = {
    table: (*columns, *(name for name, check in CHECKS.items() if table in check.tables))
    for table, columns in _MEASURED.items()
}
"""Columns by table: what is measured, described in ``docs/expectations.md``, and a column for each check."""


def metrics(found: Measurement) -> Tables:
    """Return one table each for the graph, its node types, its edge types and its features."""
    metadata = found.facts.metadata
    features = (*metadata.node_features, *metadata.edge_features)
    tables = {
        "graph": [_graph_row(metadata, found)],
        "node_types": [_node_row(metadata, found, type_id) for type_id in range(len(metadata.node_types))],
        "edge_types": [_edge_row(metadata, *entry) for entry in enumerate(found.facts.edge_rows())],
        "features": [_feature_row(found, feature) for feature in features],
    }
    for table, rows in tables.items():
        for row in rows:
            counts = {column: found.defects.count(column, row["name"]) for column in METRICS[table]}
            row.update({column: count for column, count in counts.items() if column not in row})
    return tables


def degree_distribution(found: Measurement) -> dict[str, dict[str, Any]]:
    """Return by node type how many nodes have an in- or out-degree in each bin."""
    return {
        name: {
            "at_least": list(DEGREE_BINS),
            "in_degree": degrees.in_bins,
            "out_degree": degrees.out_bins,
        }
        for name, degrees in zip(found.facts.metadata.node_types, found.facts.degrees, strict=True)
    }


def expectation_suites() -> dict[str, dict[str, Any]]:
    """Return this project's suites by table, in the format of ``schemas/expectation_suite.schema.json``."""
    return {
        table: {
            "name": table,
            "notes": f"One row for each {ROWS[table]}." if table != "graph" else "One row: the whole graph.",
            "expectations": [
                *_ON_NODE_IDS.get(table, ()),
                *(one for check in CHECKS.values() for one in _expectations_of(check, table)),
                *(_shown(column, notes) for column, notes in _SHOWN.get(table, {}).items()),
            ],
        }
        for table in METRICS
    }


_ON_NODE_IDS = {
    "node_types": [
        {
            "type": "expect_column_values_to_be_in_set",
            "kwargs": {"column": column, "value_set": [0]},
            "meta": {"check": column},
            "severity": "critical",
            "notes": notes,
        }
        for column, notes in (
            ("first_id", "Type-wise IDs start at 0. Otherwise features belong to other nodes."),
            ("gap_before", "The homogeneous IDs of a type follow those of the type before it."),
        )
    ]
}
_SHOWN = {
    "graph": {
        "components": "Parts of the graph that no edge connects. If there are many small ones, balance"
        " is easy and the edge cut means little.",
        "connected_share": "Share of the nodes in the largest connected component.",
    },
    "node_types": {
        "isolated_share": "Largest share, over the node types, of nodes without any edge. They fit into any"
        " partition and learn nothing from neighbours.",
        "nodes_without_features_share": "Largest share, over the node types, of nodes without features.",
    },
}
"""Metrics that are never wrong: the Data Docs show them."""


def _expectations_of(check: Check, table: str) -> list[dict[str, Any]]:
    """Return what is expected of the columns of a check in a table."""
    notes = f"A finding is that {check.finding}. Without the check: {check.harm}."
    if table in check.tables and check.severity == "information":
        return [_shown(check.name, notes)]
    warning = check.severity == "warning"
    meta = {"check": check.name, **({"action": "warn"} if warning else {})}
    common = {"meta": meta, "severity": "warning" if warning else "critical", "notes": notes}
    found: list[dict[str, Any]] = []
    if table in check.tables:
        kwargs: dict[str, Any] = {"column": check.name, "max_value": 0}
        found.append({"type": "expect_column_values_to_be_between", "kwargs": kwargs, **common})
    if table in check.equal_columns:
        kwargs = dict(zip(("column_A", "column_B"), check.equal_columns[table], strict=True))
        found.append({"type": "expect_column_pair_values_to_be_equal", "kwargs": kwargs, **common})
    return found


def _shown(column: str, notes: str) -> dict[str, Any]:
    """Return an expectation that every measured value meets."""
    most = {"max_value": 1} if column.endswith("_share") else {}
    return {
        "type": "expect_column_max_to_be_between",
        "kwargs": {"column": column, "min_value": 0, **most},
        "meta": {"check": column, "action": "info"},
        "severity": "info",
        "notes": notes,
    }


def _graph_row(metadata: GraphMetadata, found: Measurement) -> Row:
    nodes = sum(metadata.num_nodes)
    return {
        "name": metadata.graph_name,
        "nodes": nodes,
        "edges": sum(found.facts.edge_rows()),
        "components": found.facts.components.count,
        "connected_share": _share(found.facts.components.largest, nodes),
    }


def _node_row(metadata: GraphMetadata, found: Measurement, type_id: int) -> Row:
    name, nodes = metadata.node_types[type_id], metadata.num_nodes[type_id]
    degrees = found.facts.degrees[type_id]
    features = [feature for feature in metadata.node_features if feature.type_name == name]
    start, end = metadata.node_offsets[type_id : type_id + 2]
    return {
        "name": name,
        "nodes": nodes,
        "first_id": 0,
        "start": start,
        "end": end,
        "gap_before": start - (metadata.node_offsets[type_id - 1] + metadata.num_nodes[type_id - 1])
        if type_id
        else start,
        "isolated_nodes": degrees.isolated,
        "isolated_share": _share(degrees.isolated, nodes),
        "max_in_degree": degrees.max_in,
        "max_out_degree": degrees.max_out,
        "mean_degree": _share(degrees.total, nodes),
        "features": len(features),
        "nodes_without_features_share": 0.0 if features or not nodes else 1.0,
    }


def _edge_row(metadata: GraphMetadata, type_id: int, rows: int) -> Row:
    counts, files = metadata.num_edges_per_chunk[type_id], len(metadata.edges[type_id].files)
    return {
        "name": str(metadata.edge_types[type_id]),
        "edges": rows,
        "edges_expected": metadata.num_edges[type_id],
        "files": files,
        "files_expected": files if counts is None else len(counts),
    }


def _feature_row(found: Measurement, feature: Feature) -> Row:
    facts, files = found.facts.features[feature.key], len(feature.data.files)
    first = facts.first_layout
    return {
        "name": feature.key,
        "dtype": "" if first is None else str(first.dtype),
        "row_shape": "[]" if first is None else str(list(first.shape)),
        "rows": facts.rows,
        "rows_expected": facts.expected_rows,
        "files": files,
        "files_expected": files,
        "nonfinite_share": _share(found.defects.count("nonfinite_values", feature.key), facts.values),
    }


def _share(part: int, whole: int) -> float:
    return round(part / whole, 6) if whole else 0.0
