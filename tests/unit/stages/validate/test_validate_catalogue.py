"""One change to a good graph leads to one finding; test_bad_input.py has more cases."""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from partition_ops.artifacts import layout
from partition_ops.errors import InvalidInputError
from partition_ops.stages.validate.checks import CHECKS
from partition_ops.stages.validate.options import ValidateConfig
from partition_ops.stages.validate.validate import validate_graph
from partition_ops.storage import open_store
from tests.damage import chunked
from tests.graphs import Edges, Layout, SmallGraph, library
from tests.unit.chunked.test_bad_input import CHANGES, cut, edit, metadata

WRITES, CITES, YEAR = "author:writes:paper", "paper:cites:paper", "paper:cites:paper/year"
FEAT, LABEL, MASK, GRID = "paper/feat", "paper/label", "paper/train_mask", "author/grid"
Change = Callable[[Path], Any]


def graph(**changes: Any) -> SmallGraph:
    """Return a graph in two chunks: CSV edges; features as .npy, Parquet and CSV."""
    return replace(chunked(library(papers=40, layout=Layout("csv"))), **changes)


def overlapping() -> SmallGraph:
    edges = {"a:r:b": Edges([0, 1], [0, 1]), "a:s:b": Edges([1, 2], [0, 1]), "b:t:a": Edges([0], [2])}
    return SmallGraph({"a": 3, "b": 2}, {name: replace(e, layout=Layout("csv")) for name, e in edges.items()})


@dataclass(frozen=True)
class Case:
    """A change.

    Attributes:
        change: Made to the graph's folder.
        check: The check that must catch it.
        name: The type or feature that it must name.
        words: What a sentence of it must say.
        count: How many findings there must be.
        on_defect: What is to be done about findings.
        graph: The good graph.
    """

    change: Change
    check: str
    name: str
    words: str
    count: int = 1
    on_defect: str = "fail"
    graph: Callable[[], SmallGraph] = graph


def line(key: str, index: int, text: str) -> Change:
    return lambda folder: edit(folder, key, lambda lines: lines.__setitem__(index, text))


def both(*changes: Change) -> Change:
    return lambda folder: [change(folder) for change in changes]


def counts(key: str, type_id: int, change: Callable[[list[int]], Any]) -> Change:
    return lambda folder: metadata(folder, lambda document: change(document[key][type_id]))


def described(edge_type: str, **changes: Any) -> Change:
    return lambda f: metadata(f, lambda d: d["edges"][edge_type]["format"].update(changes))


def repeat_edge(first: str, second: str, row: int) -> Change:
    """Return a change that puts the first edge of one file into a row of another."""
    return lambda folder: line(second, row, (folder / first).read_text().splitlines()[0])(folder)


def parquet(key: str, metadata: dict[str, str] | None = None, **columns: Any) -> Change:
    table = pa.table(columns)
    return lambda folder: pq.write_table(table.replace_schema_metadata(metadata), folder / key)


def npy(key: str, change: Callable[[np.ndarray], np.ndarray]) -> Change:
    return lambda folder: np.save(folder / key, change(np.load(folder / key)))


def with_value(value: float) -> Callable[[np.ndarray], np.ndarray]:
    def change(values: np.ndarray) -> np.ndarray:
        values[3, 1, 2] = value
        return values

    return change


def move_row(first: str, second: str) -> Change:
    """Return a change that moves the last row of one file to the end of another, so that the sum stays."""

    def change(folder: Path) -> None:
        lines = (folder / first).read_text().splitlines()
        edit(folder, first, lambda rows: rows.pop())
        edit(folder, second, lambda rows: rows.append(lines[-1]))

    return change


def by_type() -> SmallGraph:
    return graph(counts="type")


CASES = {
    "a duplicate in another chunk": Case(
        repeat_edge("edges/0-0.csv", "edges/0-1.csv", 3),
        *("duplicate_edges", WRITES, r"edge \d+, \d+ -> \d+, in row 3 of edges/0-1\.csv"),
    ),
    "a duplicate in another chunk, counts by type": Case(
        repeat_edge("edges/0-0.csv", "edges/0-1.csv", 3),
        *("duplicate_edges", WRITES, r"edge \d+, \d+ -> \d+, in row 3 of edges/0-1\.csv"),
        graph=by_type,
    ),
    "one edge in a whole chunk": Case(
        lambda f: edit(f, "edges/2-1.csv", lambda rows: rows.__setitem__(slice(None), ["0,0"] * len(rows))),
        *("duplicate_edges", "paper:in:venue", r"0 -> 0, in row 1 of edges/2-1\.csv", -1),
    ),
    "a self-loop in the second chunk": Case(
        line("edges/1-1.csv", 2, "5,5"),
        *("self_loop_edges", CITES, r"row 2 of edges/1-1\.csv, source 5 of 'paper'"),
    ),
    "an edge over one of another type": Case(
        line("edges/1-0.csv", 0, "0,0"),
        *("parallel_edges", "small", "1 edges join the same two nodes as an edge of another type"),
        graph=overlapping,
    ),
    "an edge against one of another type": Case(
        line("edges/2-0.csv", 0, "1,1"), *("reversed_edges", "small", "1 pairs"), graph=overlapping
    ),
    "reversed edges with the action fail": Case(
        line("edges/2-0.csv", 0, "1,2"),
        *("reversed_edges", "small", "1 pairs of nodes"),
        on_defect="reversed_edges=fail",
        graph=overlapping,
    ),
    "a misspelt section": Case(
        lambda f: metadata(f, lambda d: d.update(node_feat=d["node_data"])),
        *("unknown_keys", "metadata.json", "'node_feat', which the format does not have"),
    ),
    "a section with a letter less": Case(
        lambda f: metadata(f, lambda d: d.update(node_dta=d.pop("node_data"))),
        *(
            "unknown_keys",
            "metadata.json",
            r"'node_dta', which the format does not have; did you mean 'node_data'\?",
        ),
    ),
    "edges of a type that is not listed": Case(
        lambda f: metadata(f, lambda d: d["edges"].update({"a:b:c": d["edges"]["paper:cites:paper"]})),
        *("unknown_keys", "metadata.json", "edges of 'a:b:c', which edge_type does not list"),
    ),
    "a misspelt section with the action fail": Case(
        lambda f: metadata(f, lambda d: d.update(edge_feat={})),
        *("unknown_keys", "metadata.json", "'edge_feat'"),
        on_defect="unknown_keys=fail",
    ),
    "another delimiter in the metadata": Case(
        described(WRITES, delimiter=";", header=False),
        "wrong_column_rows",
        WRITES,
        r"'\d+,\d+' in row 0 \(line 1\) of \S+, where ',' separates two integers, and metadata.json says ';'",
        -1,
    ),
    "another delimiter in a file": Case(
        lambda f: edit(f, "edges/0-1.csv", lambda rows: rows.__setitem__(slice(4, 6), ["1;2", "3;4"])),
        *(
            "wrong_column_rows",
            WRITES,
            r"'1;2' in row 4 \(line 5\) of edges/0-1\.csv, where ';' separates",
            2,
        ),
    ),
    "a first row read as a header": Case(
        described(WRITES, header=True), "wrong_count_files", WRITES, r"rows in edges/0-0\.csv, where", 2
    ),
    "a header that is not flagged": Case(
        both(
            described(WRITES, header=False),
            lambda f: edit(f, "edges/0-0.csv", lambda rows: rows.__setitem__(0, "src,dst")),
        ),
        *("non_integer_rows", WRITES, r"'src,dst' in row 0 \(line 1\)"),
    ),
    "a header in the middle": Case(
        line("edges/0-0.csv", 9, "src,dst"), "non_integer_rows", WRITES, r"'src,dst' in row 9 \(line 10\)"
    ),
    "a row of NUL bytes": Case(
        line("edges/0-0.csv", 9, "\0\0,1"), "non_integer_rows", WRITES, r"in row 9 \(line 10\)"
    ),
    "a line without an ID": Case(line("edges/0-0.csv", 2, ",7"), "null_ids", WRITES, r"row 2 of edges/0-0"),
    "compressed text": Case(
        lambda f: (f / "edges/0-0.csv").write_bytes(gzip.compress((f / "edges/0-0.csv").read_bytes())),
        *("unreadable_files", WRITES, r"edges/0-0\.csv.*is not a text file"),
    ),
    "more counts than files": Case(
        counts("num_edges_per_chunk", 0, lambda c: c.append(0)),
        *("file_counts", WRITES, "2 files, where num_edges_per_chunk has 3 counts"),
    ),
    "fewer counts than files": Case(
        counts("num_edges_per_chunk", 0, lambda c: c.__setitem__(slice(None), [sum(c)])),
        *("file_counts", WRITES, "2 files, where num_edges_per_chunk has 1 counts"),
    ),
    "a row in the wrong chunk": Case(
        move_row("edges/0-0.csv", "edges/0-1.csv"),
        *("wrong_count_files", WRITES, r"\d+ rows in edges/0-1\.csv, where metadata.json says \d+", 2),
    ),
    "a row too few, counts by type": Case(
        lambda f: edit(f, "edges/0-1.csv", lambda rows: rows.pop()),
        *(
            "wrong_count_files",
            WRITES,
            r"\d+ rows in 2 files, the first of them \S+, where metadata\.json says \d+",
        ),
        graph=by_type,
    ),
    "a type without nodes": Case(
        line("edges/0-0.csv", 0, "0,2"),
        "out_of_range_ids",
        "a:r:b",
        r"2 of 'b' \(0 to 1\)",
        graph=overlapping,
    ),
    "an ID that wraps around": Case(
        line("edges/0-0.csv", 0, f"{2**63 - 1},0"),
        "out_of_range_ids",
        WRITES,
        "source 9223372036854775807 of",
    ),
    "a chunk that is missing": Case(
        lambda f: (f / "edges/0-1.csv").unlink(), "missing_files", WRITES, r"no file edges/0-1\.csv"
    ),
    "all chunks of a feature missing": Case(
        lambda f: [(f / f"node_data/0-{i}.npy").unlink() for i in (0, 1)],
        *("missing_files", FEAT, r"no file node_data/0-0\.npy", 2),
    ),
    "another dtype in the second chunk": Case(
        npy("node_data/0-1.npy", lambda values: values.astype(np.float64)),
        *("layout_mismatches", FEAT, r"0-1\.npy.*float64 rows of shape \(8,\).*float32"),
    ),
    "wider rows in the second chunk": Case(
        npy("node_data/3-1.npy", lambda values: np.zeros((len(values), 2, 4))),
        *("layout_mismatches", GRID, r"shape \(2, 4\), the chunks before it float64 rows of shape \(2, 3\)"),
    ),
    "narrower integers in Parquet": Case(
        parquet("node_data/1-1.parquet", value=pa.array([1] * 20, pa.int32())),
        *("layout_mismatches", LABEL, "int32 rows of shape"),
    ),
    "more columns in the second CSV": Case(
        lambda f: edit(f, "node_data/2-1.csv", lambda rows: rows.__setitem__(slice(None), ["1,0"] * 20)),
        *("layout_mismatches", MASK, r"2-1\.csv"),
    ),
    "rows of a feature in the wrong chunk": Case(
        both(
            npy("node_data/0-0.npy", lambda v: v[:-1]), npy("node_data/0-1.npy", lambda v: v[[0, *range(20)]])
        ),
        *("wrong_count_files", FEAT, r"19 rows in node_data/0-0\.npy .*, where metadata\.json says 20", 2),
    ),
    "a feature with a row too many, counts by type": Case(
        npy("node_data/3-1.npy", lambda values: values[[0, *range(10)]]),
        *("wrong_count_files", GRID, r"21 rows in 2 files, the first of them \S+, where the type has 20"),
        graph=by_type,
    ),
    "a feature of edges with a row too few": Case(
        parquet("edge_data/0-1.parquet", value=pa.array([1], pa.int16())),
        *("wrong_count_files", YEAR, r"1 rows in edge_data/0-1\.parquet"),
    ),
    "a shape that has another size": Case(
        parquet("node_data/1-0.parquet", {"shape": "(20, 3)"}, value=list(range(20))),
        *("unreadable_files", LABEL, r"'shape' .* does not match the values.*\(20, 3\).*20 values"),
    ),
    "a shape that lies about the rows": Case(
        both(
            *(parquet(f"node_data/1-{i}.parquet", {"shape": "(10, 2)"}, value=[*range(20)]) for i in (0, 1))
        ),
        *("wrong_count_files", LABEL, "10 rows in .*says 20", 2),
    ),
    "a shape that is not one": Case(
        parquet("node_data/1-0.parquet", {"shape": "twenty"}, value=list(range(20))),
        *("unreadable_files", LABEL, "'twenty'"),
    ),
    "nulls in a feature": Case(
        parquet("node_data/1-0.parquet", value=[None, *range(19)]),
        *("unreadable_files", LABEL, "missing values.*1 nulls"),
    ),
    "text in a Parquet feature": Case(
        parquet("node_data/1-0.parquet", value=["x"] * 20), "unreadable_files", LABEL, "does not have numbers"
    ),
    "a word in a CSV feature": Case(
        line("node_data/2-0.csv", 3, "perhaps"), "unreadable_files", MASK, "'perhaps' in line 4"
    ),
    "a ragged CSV feature": Case(
        line("node_data/2-0.csv", 3, "1,2"), "unreadable_files", MASK, r"2-0\.csv.*cannot be read as CSV"
    ),
    "NaN, as a warning": Case(
        npy("node_data/3-0.npy", with_value(np.nan)),
        *("nonfinite_values", GRID, r"nan at \[3, 1, 2\] of node_data/3-0\.npy"),
    ),
    "infinity with the action fail": Case(
        npy("node_data/3-1.npy", with_value(-np.inf)),
        *("nonfinite_values", GRID, r"-inf at \[3, 1, 2\] of node_data/3-1\.npy"),
        on_defect="nonfinite_values=fail",
    ),
    "a feature of text": Case(
        npy("node_data/3-0.npy", lambda v: np.full(len(v), "x")), "unsupported_dtype", GRID, "<U1"
    ),
    "a Parquet file cut short": Case(
        cut("node_data/1-0.parquet", 100), "unreadable_files", LABEL, "cannot be read as Parquet"
    ),
}


Found = dict[tuple[str, str], Any]


def findings(folder: Path, on_defect: str) -> tuple[Found, str | None]:
    """Return the report's defects by check and name, and the message if the graph was rejected."""
    destination, message = open_store(str(folder / "out")), None
    try:
        config = ValidateConfig(on_defect=on_defect)
        validate_graph(config, open_store(str(folder / "graph")), destination)
    except InvalidInputError as error:
        message = str(error)
    report = destination.read_json(layout.VALIDATION_REPORT)
    assert report["passed"] == (message is None)
    return {(d["check"], d["name"]): d for d in report["defects"]}, message


@pytest.fixture(scope="module")
def usual(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Callable[[], SmallGraph]], Found]:
    """Return the defects of a good graph, once for each graph."""

    @cache
    def defects(graph: Callable[[], SmallGraph]) -> Found:
        folder = tmp_path_factory.mktemp("good")
        graph().write(folder / "graph")
        return findings(folder, "warn")[0]

    return defects


@pytest.mark.parametrize("name", CASES)
def test_one_change_one_finding(
    tmp_path: Path, name: str, usual: Callable[[Callable[[], SmallGraph]], Found]
) -> None:
    case = CASES[name]
    before = usual(case.graph)
    case.change(case.graph().write(tmp_path / "bad/graph"))
    found, message = findings(tmp_path / "bad", case.on_defect)
    always = {("reversed_edges", "small"), ("parallel_edges", "small"), ("nonfinite_values", FEAT)}
    assert set(found) - always == {(case.check, case.name)} - always
    defect = found[case.check, case.name]
    assert any(re.search(case.words, example["sentence"], re.S) for example in defect["examples"]), defect
    assert case.count in (-1, defect["count"] - before.get((case.check, case.name), {"count": 0})["count"])
    assert defect["severity"] == CHECKS[case.check].severity
    if defect["action"] == "fail":
        assert message is not None
        assert f"{case.check} of {case.name!r}" in message


def test_every_check_has_a_test() -> None:
    checks = {case.check for case in CASES.values()}
    others = {file.stem.removeprefix("test_") for file in Path(__file__).parent.glob("test_*.py")}
    assert checks | others >= set(CHECKS) - {"expectations", "metadata"}  # test_expectations, test_bad_input
    assert len(CASES) + len(CHANGES) >= 40


def test_several_defects_at_once_are_all_named(tmp_path: Path) -> None:
    folder = graph().write(tmp_path / "graph")
    names = (
        "a self-loop in the second chunk",
        "another dtype in the second chunk",
        "a chunk that is missing",
    )
    rows = {8: "900,1", 9: "word,1", 11: "1,2,3", 12: ",1", 13: "1,700"}
    for change in (
        *(CASES[name].change for name in names),
        *(line("edges/0-0.csv", *r) for r in rows.items()),
    ):
        change(folder)
    repeat_edge("edges/0-0.csv", "edges/0-0.csv", 14)(folder)  # behind the rows that are no edges
    found, message = findings(tmp_path, "fail")
    expected = {CASES[name].check for name in names}
    expected |= {"out_of_range_ids", "non_integer_rows", "wrong_column_rows", "null_ids", "duplicate_edges"}
    assert {check for check, name in found if name not in ("small", FEAT)} | {"layout_mismatches"} == expected
    assert found["out_of_range_ids", WRITES]["count"] == 2
    assert message is not None
    assert "8 checks failed" in message


def test_a_feature_of_csv_may_hold_nan(tmp_path: Path) -> None:
    values = replace(graph().node_values[0], array=np.array([[1.5], [np.nan]] * 20), layout=Layout("csv"))
    graph(node_values=[values]).write(tmp_path / "graph")
    found, message = findings(tmp_path, "fail")
    assert message is None
    assert found["nonfinite_values", FEAT]["count"] == 20


def test_the_report_names_no_folder_of_this_machine(tmp_path: Path) -> None:
    """The same graph in another folder has the same report."""
    folder = graph().write(tmp_path / "graph")
    CASES["a duplicate in another chunk"].change(folder)
    findings(tmp_path, "warn")
    assert str(tmp_path) not in (tmp_path / "out/validation/report.json").read_text()
