"""The figures of the report, counted out by hand, and a page that needs no network."""

from __future__ import annotations

import re
from html import escape
from pathlib import Path

import pytest

from partition_ops.artifacts import layout
from partition_ops.artifacts.run_figures import seconds_by_stage
from partition_ops.cli.text_tables import quality_lines
from partition_ops.options.declare import StageConfig
from partition_ops.stages.convert.convert import convert_graph
from partition_ops.stages.convert.options import ConvertConfig
from partition_ops.stages.partition.write_assignment import import_assignment
from partition_ops.stages.prepare.options import PrepareConfig
from partition_ops.stages.prepare.prepare import prepare_graph
from partition_ops.stages.quality.options import QualityConfig
from partition_ops.stages.quality.page import quality_page
from partition_ops.stages.quality.quality import report_quality
from partition_ops.storage import Store, open_store
from partition_ops.system.json_documents import check_document
from tests.graphs import Edges, SmallGraph


@pytest.fixture
def report(tmp_path: Path) -> tuple[dict, Store]:
    """Users 0-3 and items 0-1; part 0 has users 0, 1 and item 0; part 1 the rest."""
    edges = Edges([0, 1, 2, 3, 0, 2], [0, 0, 0, 1, 1, 1])
    graph = SmallGraph({"user": 4, "item": 2}, {"user:buys:item": edges}, name="shop")
    theirs = open_store(str(tmp_path / "theirs"))
    theirs.write_json("partition_meta.json", {"version": "1.0.0", "num_parts": 2, "algo_name": "metis"})
    theirs.write_bytes("user.txt", b"0\n0\n1\n1\n")
    theirs.write_bytes("item.txt", b"0\n1\n")
    source, out = open_store(str(graph.write(tmp_path / "graph"))), open_store(str(tmp_path / "out"))
    import_assignment(StageConfig(), source, theirs, out)
    convert_graph(ConvertConfig(), source, out)
    report_quality(QualityConfig(), source, out)
    return out.read_json(layout.QUALITY_REPORT), out


@pytest.mark.parametrize("broken", [b"", b"{}", b"[]", b"\xff"])
def test_a_broken_record_costs_its_time_only(report: tuple[dict, Store], broken: bytes) -> None:
    _, out = report
    whole = seconds_by_stage(out)
    out.write_bytes("records/convert-part0.json", broken)
    assert seconds_by_stage(out).keys() == whole.keys() >= {"gather", "partition"}
    assert seconds_by_stage(out)["gather"] <= whole["gather"]


def test_the_figures_are_those_counted_by_hand(report: tuple[dict, Store]) -> None:
    figures, _ = report
    # 2 -> 0 ends in part 0 and begins in part 1; 0 -> 1 the other way round
    assert figures["edge_cut"] == {"edges": 2, "fraction": round(2 / 6, 6)}
    assert figures["communication_volume"] == 2
    assert figures["replication_factor"] == round(8 / 6, 6)
    assert figures["node_types"]["user"] == {"per_part": [2, 2], "halo_per_part": [1, 1], "imbalance": 1.0}
    assert figures["edge_types"]["user:buys:item"]["per_part"] == [3, 3]
    assert [part["halo_nodes"] for part in figures["partitions"]] == [1, 1]


def test_the_bytes_are_those_of_the_files(report: tuple[dict, Store]) -> None:
    figures, out = report
    sizes = [entry.size for entry in out.list("partitions/part1/") if entry.key.endswith(".dgl")]
    assert figures["partitions"][1]["bytes"] == sum(sizes)
    assert len(sizes) == 5


def test_the_page_loads_nothing_and_shows_the_figures(report: tuple[dict, Store]) -> None:
    page = report[1].read_bytes(layout.QUALITY_PAGE).decode()
    links = re.findall(r'(?:src|href)="(?!#|data:)([^"]*)"', page)
    assert links == [f"../{layout.TIMES}"]  # beside the page, and not in it: no two runs take as long
    assert "<script" not in page
    assert "33.33%" in page
    assert page.count("<svg") == 3  # no prepared graph, no degrees


def test_the_page_names_the_lightest_and_the_heaviest_partition() -> None:
    sizes = [449] * 63 + [193]
    partitions = [
        {"part": part, "inner_nodes": nodes, "halo_nodes": 0, "edges": 0, "cut_edges": 0, "bytes": 0}
        for part, nodes in enumerate(sizes)
    ]
    figures = {
        "graph_name": "g",
        **{"num_parts": 64, "num_nodes": sum(sizes), "num_edges": 0},
        "edge_cut": {"edges": 0, "fraction": 0.0},
        **{"replication_factor": 1.0, "communication_volume": 0, "edge_types": {}},
        "node_types": {"item": {"per_part": sizes, "halo_per_part": [0] * 64, "imbalance": 1.009}},
        "partitions": partitions,
    }
    page = quality_page(figures, {"entries": []}, "times.svg", "speeds.svg")
    cells = re.findall(r"<td>([^<]*)</td>", page)
    row = cells.index("item")
    assert cells[row : row + 8] == ["item", "28,480", "0.434", "193", "63", "1.009", "449", "0"]
    assert "<b>0.434</b>lightest share of a type" in page
    assert "<b>0.434 to 1.009</b>lightest and heaviest partition" in page
    assert "allowed share" not in page
    figures["balance"] = {"node_types": {"item": {"whole_nodes": 1.25}}}
    page = quality_page(figures, {"entries": []}, "times.svg", "speeds.svg")
    cells = re.findall(r"<t[dh][^>]*>([^<]*)</t[dh]>", page)
    row = cells.index("item")
    assert "allowed share" in cells
    assert cells[row + 8] == "1.250"


def test_lightest_and_heaviest_of_each_type_and_of_all_nodes(tmp_path: Path) -> None:
    """By hand: users 3 and 1 of 4, items 0 and 2 of 2, together 3 and 3 of 6."""
    graph = SmallGraph({"user": 4, "item": 2}, {"user:buys:item": Edges([0, 1], [0, 1])}, name="shop")
    theirs = open_store(str(tmp_path / "theirs"))
    theirs.write_json("partition_meta.json", {"version": "1.0.0", "num_parts": 2, "algo_name": "metis"})
    theirs.write_bytes("user.txt", b"0\n0\n0\n1\n")
    theirs.write_bytes("item.txt", b"1\n1\n")
    source, out = open_store(str(graph.write(tmp_path / "graph"))), open_store(str(tmp_path / "out"))
    import_assignment(StageConfig(), source, theirs, out)
    convert_graph(ConvertConfig(), source, out)
    report_quality(QualityConfig(), source, out)
    figures = out.read_json(layout.QUALITY_REPORT)
    check_document(figures, "quality_report", where="report")
    assert figures["balance"].pop("fullest")["edges"] == {"part": 1, "ratio": 2.0}
    assert figures["balance"] == {
        "lightest": 1.0,
        "heaviest": 1.0,
        "node_types": {
            "user": {"lightest": 0.5, "heaviest": 1.5},
            "item": {"lightest": 0.0, "heaviest": 2.0},
        },
    }
    cells = re.findall(r"<td>([^<]*)</td>", out.read_bytes(layout.QUALITY_PAGE).decode())
    row = cells.index("all types")
    assert cells[row : row + 8] == ["all types", "6", "1.000", "3", "0", "1.000", "3", "0"]


def test_partitions_without_nodes_are_noted(report: tuple[dict, Store], tmp_path: Path) -> None:
    """Only imported assignments have some: our engines make at most as many partitions as nodes."""
    assert "notes" not in report[0]
    theirs, out = open_store(str(tmp_path / "theirs")), open_store(str(tmp_path / "again"))
    theirs.write_json("partition_meta.json", {"version": "1.0.0", "num_parts": 4, "algo_name": "metis"})
    theirs.write_bytes("item.txt", b"2\n2\n")
    source = open_store(str(tmp_path / "graph"))
    import_assignment(StageConfig(), source, theirs, out)
    convert_graph(ConvertConfig(), source, out)
    report_quality(QualityConfig(), source, out)
    figures = out.read_json(layout.QUALITY_REPORT)
    check_document(figures, "quality_report", where="report")
    notes = [
        "1 of 4 partitions have no nodes",
        "2 of 4 partitions have no node of type 'user', which has 4",
        "3 of 4 partitions have no node of type 'item', which has 2",
    ]
    assert figures["notes"] == notes
    page = out.read_bytes(layout.QUALITY_PAGE).decode()
    assert all(f"Note: {escape(note)}." in page for note in notes)
    assert any(line.endswith(notes[0]) for line in quality_lines(figures))


def test_replication_by_degree(tmp_path: Path) -> None:
    """A star whose middle is needed in both partitions, and a leaf each that is not at home with it."""
    graph = SmallGraph({"a": 6}, {"a:to:a": Edges([0, 0, 0, 0, 0], [1, 2, 3, 4, 5])})
    source, out = open_store(str(graph.write(tmp_path / "graph"))), open_store(str(tmp_path / "out"))
    theirs = open_store(str(tmp_path / "theirs"))
    theirs.write_json("partition_meta.json", {"version": "1.0.0", "num_parts": 2, "algo_name": "metis"})
    theirs.write_bytes("a.txt", b"0\n0\n0\n1\n1\n1\n")
    prepare_graph(PrepareConfig(), source, out)
    import_assignment(StageConfig(), source, theirs, out)
    convert_graph(ConvertConfig(), source, out)
    report_quality(QualityConfig(), source, out)
    assert out.read_json(layout.QUALITY_REPORT)["degrees"] == [
        {"least": 1, "most": 1, "nodes": 5, "replication_factor": 1.0},
        {"least": 4, "most": 7, "nodes": 1, "replication_factor": 2.0},
    ]
    page = out.read_bytes(layout.QUALITY_PAGE).decode()
    assert "Degree and replication" in page
    times = out.read_bytes(layout.TIMES).decode()
    assert all(stage in times for stage in ("prepare", "partition", "scatter", "gather"))
