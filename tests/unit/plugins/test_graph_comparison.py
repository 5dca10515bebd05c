"""Comparison of runs on the page of graphs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from graph_partitioning.page.comparison import (
    SHOWN,
    compare_runs,
    differs,
    input_changes,
    read_inputs,
    schema_changes,
)

from partition_ops.artifacts.layout import MANIFEST
from partition_ops.storage import open_store
from tests.tables import ITEMS, ingest, write_csv, write_shop

ENTRY = {
    **{"run": "a", "num_parts": 2, "num_nodes": 10, "num_edges": 20, "edge_cut": 0.5, "bytes": 100},
    **{"worst_imbalance": 1.0, "replication_factor": 1.5, "seconds": {"validate": 1.0}},
    "options": {"partition": {"seed": 0, "engine": "metis"}},
}
FILE: dict[str, Any] = {"path": "metadata.json", "size": 1234, "sha256": "0" * 64}
NOTHING_ELSE: dict[str, Any] = {
    "version": 1,
    "graph_name": "g",
    "options": {},
    "versions": {},
    "artifacts": [],
}
REPORT = {
    "node_types": {"n": {"imbalance": 1.0}},
    "edge_types": {"n:to:n": {"cut_fraction": 0.5}},
    "partitions": [{"inner_nodes": 5, "halo_nodes": 2, "cut_edges": 10}] * 2,
}


def test_only_options_that_differ_are_compared() -> None:
    other = {**ENTRY, "run": "b", "edge_cut": 0.25, "options": {"partition": {"seed": 7, "engine": "metis"}}}
    tables, moved = compare_runs((ENTRY, other), (REPORT, {**REPORT, "partitions": REPORT["partitions"] * 2}))
    by_title = {title: rows for title, _, rows in tables}
    assert by_title["Options that differ"] == [["Seed", "0", "7"]]  # by the title in the form
    assert ["edges cut", "50.00%", "25.00%", "-50.0%"] in by_title["Figures"]
    assert ["remote rows a batch, slowest trainer", "", "", ""] in by_title["Figures"]
    assert by_title["Training"] == []
    different = [row[0] for row in by_title["Figures"] if differs(row)]
    assert different == ["edges cut"]
    assert [differs(row) for row in by_title["Partitions"]] == [False, False, True, True]
    assert by_title["Partitions"][3] == ["3", "", "5", "", "2", "", "10"]
    assert "Neither run continues the other" in moved


def test_a_previous_run_is_named_and_counts_of_nodes_are_no_options() -> None:
    options = {"partition": {"engine": "metis", "seed": 0, "num_nodes": [9], "previous": "cec350e6"}}
    other = {**ENTRY, "run": "b", "options": options, "previous": "s3://graphs/output/shop/runs/a"}
    tables, _ = compare_runs((ENTRY, other), (REPORT, REPORT))
    assert {title: rows for title, _, rows in tables}["Options that differ"] == [["Previous run", "", "a"]]


def test_what_trainers_fetch_in_two_runs() -> None:
    trainer = {"seeds": 1000, "remote_rows_per_batch": 20.5, "remote_neighbour_share": 0.25}
    after = {**REPORT, "training": {"partitions": [trainer]}}
    before = {**ENTRY, "slowest_rows": 41.0, "slowest_ratio": 1.5}
    tables, _ = compare_runs((before, {**before, "slowest_rows": 20.5}), (REPORT, after))
    by_title = {title: rows for title, _, rows in tables}
    assert ["remote rows a batch, slowest trainer", "41", "20", "-50.0%"] in by_title["Figures"]
    assert by_title["Training"] == [["0", "", "1,000", "", "20.5", "", "25.00%"]]


def test_what_moved_between_a_run_and_the_one_that_continues_it() -> None:
    migration = {"node_types": {"n": {"moved": 3, "old": 10}}}
    later = {**ENTRY, "run": "b", "previous": "s3://x/g/runs/a"}
    _, moved = compare_runs((ENTRY, later), (REPORT, {**REPORT, "migration": migration}))
    assert moved == "B continues A: 3 of 10 old nodes of 'n' have another partition."


def test_input_files_that_differ_between_two_runs() -> None:
    def inputs(**files: str) -> dict[str, tuple[str, str]]:
        return {path: (str(len(digest)), digest) for path, digest in files.items()}

    _, _, rows = input_changes(inputs(same="1", gone="22", other="3"), inputs(same="1", other="44", new="5"))
    assert [row[:2] for row in rows] == [["gone", "removed"], ["new", "added"], ["other", "changed"]]
    _, _, rows = input_changes(inputs(), inputs(**{f"f{i}": "1" for i in range(SHOWN + 3)}))
    assert len(rows) == SHOWN + 1
    assert rows[-1][0] == "and 3 more files"


def test_types_features_and_counts_that_differ_between_two_runs() -> None:
    def report(nodes: dict[str, int], **features: str) -> dict[str, object]:
        named = [
            {"name": f"n/{name}", "dtype": dtype, "row_shape": "[4]"} for name, dtype in features.items()
        ]
        types = [{"name": name, "nodes": count} for name, count in nodes.items()]
        return {"metrics": {"node_types": types, "edge_types": [], "features": named}}

    before, after = (
        report({"n": 1000, "m": 1}, x="float32", y="int8"),
        report({"n": 2000}, x="float16", y="int8"),
    )
    _, _, rows = schema_changes(before, after)
    assert [row for row in rows if differs(row)] == [
        ["n", "node type, 1,000 nodes", "node type, 2,000 nodes"],
        ["n/x", "float32[4]", "float16[4]"],
        ["m", "node type, 1 nodes", ""],
    ]
    assert ["n/y", "int8[4]", "int8[4]"] in rows


def test_tables_that_differ_between_two_runs(tmp_path: Path) -> None:
    tables = write_shop(tmp_path / "tables")
    runs = [open_store(str(tmp_path / name)) for name in ("one", "two")]
    for run, items in zip(runs, (ITEMS, [*ITEMS, {**ITEMS[0], "sku": "grown"}]), strict=True):
        write_csv(tables / "items.csv", items)
        ingest(tables, Path(run.uri) / "ingest")
        run.write_json(MANIFEST, {**NOTHING_ELSE, "input": {"uri": f"{run.uri}/ingest", "files": [FILE]}})
    before, after = map(read_inputs, runs)
    assert {"users/a.parquet", "items.csv", "graph.yaml"} <= {*before}
    _, _, rows = input_changes(before, after)
    assert [row[:2] for row in rows] == [["items.csv", "changed"]]


def test_the_files_of_a_chunked_graph_are_its_inputs(tmp_path: Path) -> None:
    run = open_store(str(tmp_path))
    for name in ("graph", "ingest"):  # a folder of the user may have any name
        run.write_json(MANIFEST, {**NOTHING_ELSE, "input": {"uri": f"/{name}", "files": [FILE]}})
        assert read_inputs(run) == {"metadata.json": ("1,234", "0" * 64)}
