"""The tables of metrics that the measuring part of ``validate`` fills and expectations are about.

Every table has one row for each thing; the column ``name`` is the name of the thing.
"""

from __future__ import annotations

METRICS: dict[str, tuple[str, ...]] = {
    "graph": (
        "name",
        "nodes",
        "edges",
        "parallel_edges",
        "reversed_edges",
        "components",
        "connected_share",
    ),
    "node_types": (
        "name",
        "nodes",
        "first_id",
        "start",
        "end",
        "gap_before",
        "isolated_nodes",
        "isolated_share",
        "max_in_degree",
        "max_out_degree",
        "mean_degree",
        "features",
        "nodes_without_features_share",
    ),
    "edge_types": (
        "name",
        "edges",
        "edges_expected",
        "files",
        "files_expected",
        "missing_files",
        "unreadable_files",
        "wrong_column_rows",
        "non_integer_rows",
        "null_ids",
        "out_of_range_ids",
        "wrong_count_files",
        "duplicate_edges",
        "self_loop_edges",
    ),
    "features": (
        "name",
        "dtype",
        "row_shape",
        "rows",
        "rows_expected",
        "files",
        "files_expected",
        "missing_files",
        "unreadable_files",
        "wrong_count_files",
        "layout_mismatches",
        "unsupported_dtype",
        "nonfinite_values",
        "nonfinite_share",
    ),
}
"""Columns by table. ``docs/expectations.md`` says what each one counts."""

THINGS = {"graph": "graph", "node_types": "node type", "edge_types": "edge type", "features": "feature"}
"""What a row of a table is, for messages."""

Value = int | float | str | bool | None
Tables = dict[str, list[dict[str, Value]]]
