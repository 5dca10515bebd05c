"""Great Expectations, the real one, on tables of metrics: one good set, one change at a time."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from local_stack.folders import PROJECT
from partition_ops.artifacts import layout
from partition_ops.errors import InvalidInputError
from partition_ops.stages.validate.checks import CHECKS
from partition_ops.stages.validate.expectations import Evaluation, Evaluator, Outcome, Suite
from partition_ops.stages.validate.expectations.suites import base_suites
from partition_ops.stages.validate.metrics import METRICS
from partition_ops.stages.validate.options import ValidateConfig
from partition_ops.stages.validate.validate import validate_graph
from partition_ops.storage import open_store
from tests.e2e.guide import blocks_of
from tests.graphs import Layout, library

ROWS = {
    "graph": {"nodes": 30, "edges": 9, "parallel_edges": 2, "reversed_edges": 3, "connected_share": 0.9},
    "node_types": {"nodes": 15, "end": 15, "isolated_nodes": 1, "isolated_share": 0.05},
    "edge_types": {"edges": 9, "edges_expected": 9, "files": 2, "files_expected": 2},
    "features": {
        "dtype": "float32",
        "row_shape": "[16]",
        "rows": 15,
        "rows_expected": 15,
        "files": 1,
        "files_expected": 1,
        "nonfinite_share": None,
    },
}
NAMES = {
    "graph": ["citations"],
    "node_types": ["author", "paper"],
    "edge_types": ["author:writes:paper", "paper:cites:paper"],
    "features": ["paper/feat", "author:writes:paper/weight"],
}
OWN = Suite(
    "mine.json",
    {
        "name": "node_types",
        "expectations": [
            {
                "type": "expect_column_values_to_be_between",
                "kwargs": {"column": "isolated_share", "max_value": 0.1},
                "notes": "At most one in ten.",
            },
            {
                "type": "expect_column_values_to_be_between",
                "kwargs": {
                    "column": "max_in_degree",
                    "max_value": 100,
                    "row_condition": 'col("name") == "paper"',
                    "condition_parser": "great_expectations",
                },
                "meta": {"action": "warn", "check": "hubs"},
            },
            {
                "type": "expect_column_sum_to_be_between",
                "kwargs": {"column": "nodes", "max_value": 100},
                "severity": "warning",
            },
        ],
    },
)


def good() -> dict[str, list[dict[str, Any]]]:
    return {
        table: [{**dict.fromkeys(METRICS[table], 0), **values, "name": name} for name in NAMES[table]]
        for table, values in ROWS.items()
    }


def changed(table: str, column: str, value: Any) -> dict[str, list[dict[str, Any]]]:
    """The good tables with another value in the last row of one of them."""
    tables = good()
    tables[table][-1][column] = value
    return tables


@pytest.fixture(scope="module")
def evaluator() -> Iterator[Evaluator]:
    with Evaluator([OWN]) as evaluator:
        yield evaluator


def only_failure(evaluation: Evaluation) -> Outcome:
    assert len(evaluation.failures) == 1, [outcome.sentence for outcome in evaluation.failures]
    return evaluation.failures[0]


def test_good_tables_meet_every_expectation(evaluator: Evaluator) -> None:
    evaluation = evaluator.evaluate(good())
    expected = sum(len(suite.document["expectations"]) for suite in base_suites()) + 3
    assert len(evaluation.outcomes) == expected
    assert evaluation.failures == []
    assert {outcome.table for outcome in evaluation.outcomes} == set(METRICS)
    assert sum(not outcome.ours for outcome in evaluation.outcomes) == 3


def base_expectations(table: str, *, informing: bool) -> list[dict[str, Any]]:
    """Return the expectations that only show a value, or those that can fail a run."""
    (document,) = (suite.document for suite in base_suites() if suite.table == table)
    return [one for one in document["expectations"] if (one["meta"].get("action") == "info") == informing]


def test_each_of_our_expectations_fails_on_one_changed_metric(evaluator: Evaluator) -> None:
    tables, changes = good(), []
    for table in ("node_types", "edge_types", "features"):
        expectations = base_expectations(table, informing=False)
        columns = [one["kwargs"].get("column") or one["kwargs"]["column_A"] for one in expectations]
        tables[table] = [{**tables[table][0], "name": column, column: 777} for column in columns]
        changes += [(table, *change) for change in zip(expectations, columns, strict=True)]
    failures = [outcome for outcome in evaluator.evaluate(tables).failures if outcome.check]
    assert [outcome.rows for outcome in failures] == [[column] for _, _, column in changes]
    for outcome, (table, expectation, column) in zip(failures, changes, strict=True):
        assert (outcome.table, outcome.expectation) == (table, expectation["type"])
        assert outcome.check == expectation["meta"]["check"]
        assert outcome.check in CHECKS or outcome.check in METRICS[table]
        assert outcome.action == expectation["meta"].get("action")
        assert f"{column!r} has {column} 777" in outcome.sentence


def test_each_value_that_is_only_shown_is_missed_where_it_was_not_measured(evaluator: Evaluator) -> None:
    tables = good()
    shown = [(table, one) for table in METRICS for one in base_expectations(table, informing=True)]
    for table, expectation in shown:
        for row in tables[table]:
            row[expectation["kwargs"]["column"]] = None
    failures = evaluator.evaluate(tables).failures
    assert [(one.table, one.check) for one in failures] == [(t, one["meta"]["check"]) for t, one in shown]
    assert {one.action for one in failures} == {"info"}


def test_tables_may_be_empty(evaluator: Evaluator) -> None:
    evaluation = evaluator.evaluate({table: [] for table in METRICS})
    assert [
        outcome
        for outcome in evaluation.failures
        if outcome.action != "info" and outcome.table != "node_types"
    ] == []


def test_what_was_not_measured_meets_expectations_on_single_values(evaluator: Evaluator) -> None:
    tables = changed("edge_types", "duplicate_edges", None)
    tables["edge_types"][-1]["edges"] = None
    assert only_failure(evaluator.evaluate(tables)).check == "wrong_count_files"


def test_numpy_scalars_and_truth_values_are_taken(evaluator: Evaluator) -> None:
    tables = changed("edge_types", "null_ids", np.int64(3))
    for row, value in zip(tables["features"], (False, True), strict=True):
        row["unsupported_dtype"] = value
    null_ids, unsupported = evaluator.evaluate(tables).failures
    assert null_ids.sentence.startswith(
        "Edge type 'paper:cites:paper' has null_ids 3; expected: null_ids values"
    )
    assert unsupported.rows == ["author:writes:paper/weight"]


def test_names_of_the_first_ten_rows_and_the_number_of_all(evaluator: Evaluator) -> None:
    tables = good()
    row = {**tables["edge_types"][0], "self_loop_edges": 1}
    tables["edge_types"] = [{**row, "name": f"a:r{i}:a"} for i in range(12)]
    outcome = only_failure(evaluator.evaluate(tables))
    assert outcome.rows == [f"a:r{i}:a" for i in range(10)]
    assert outcome.failed_rows == 12
    assert "and 9 more" in outcome.sentence


@pytest.fixture(scope="module")
def users(evaluator: Evaluator) -> dict[str | None, Outcome]:
    """Return by column the outcomes of the user's three expectations, which fail while ours are met."""
    tables = changed("node_types", "isolated_share", 0.25)
    tables["node_types"][-1] |= {"max_in_degree": 101, "nodes": 1000}
    failures = evaluator.evaluate(tables).failures
    assert len(failures) == 3, [outcome.sentence for outcome in failures]
    return {outcome.column: outcome for outcome in failures}


def test_a_users_expectation_fails(users: dict[str | None, Outcome]) -> None:
    outcome = users["isolated_share"]
    assert (outcome.check, outcome.action, outcome.column) == (None, None, "isolated_share")
    assert outcome.sentence == (
        "Node type 'paper' has isolated_share 0.25; expected: isolated_share values must be less than or"
        " equal to 0.1."
    )


def test_a_users_expectation_on_some_rows_warns(users: dict[str | None, Outcome]) -> None:
    outcome = users["max_in_degree"]
    assert (outcome.check, outcome.action, outcome.rows) == ("hubs", "warn", ["paper"])


def test_a_users_expectation_on_a_whole_column_warns_by_its_severity(
    users: dict[str | None, Outcome],
) -> None:
    outcome = users["nodes"]
    assert (outcome.action, outcome.rows, outcome.observed) == ("warn", [], "1015")


def test_columns_must_be_those_of_the_table(evaluator: Evaluator) -> None:
    with pytest.raises(ValueError, match=r"features.*extra"):
        evaluator.evaluate(changed("features", "extra", 1))


def pages(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def docs(evaluator: Evaluator) -> dict[str, str]:
    return pages(evaluator.evaluate(changed("edge_types", "duplicate_edges", 3)).data_docs)


def test_data_docs_are_the_same_bytes_every_time(evaluator: Evaluator, docs: dict[str, str]) -> None:
    tables = changed("edge_types", "duplicate_edges", 3)
    again = pages(evaluator.evaluate(tables).data_docs)
    with Evaluator([OWN]) as another:
        elsewhere = pages(another.evaluate(tables).data_docs)
    assert docs == again == elsewhere
    assert set(docs) == {"index.html"} | {
        f"{part}/{t}.html" for part in ("expectations", "validations") for t in METRICS
    }


def test_data_docs_need_nothing_from_elsewhere_and_their_links_lead_somewhere(docs: dict[str, str]) -> None:
    for name, page in docs.items():
        assert "<script" not in page and "<link" not in page and "src=" not in page and "url(" not in page
        for target in re.findall(r'href="([^"#]+)"', page):
            assert str((Path("/") / name).parent.joinpath(target).resolve().relative_to("/")) in docs
    assert "author:writes:paper" not in docs["validations/edge_types.html"]
    assert re.search(
        r"<td>3</td>\s*<td>1</td>\s*<td>paper:cites:paper</td>", docs["validations/edge_types.html"]
    )
    assert "At most one in ten." in docs["expectations/node_types.html"]


def test_a_name_is_no_markup(evaluator: Evaluator) -> None:
    tables = changed("edge_types", "duplicate_edges", 3)
    tables["edge_types"][-1]["name"] = "a:<script>alert(1)</script>&:b"
    evaluation = evaluator.evaluate(tables)
    assert only_failure(evaluation).rows == ["a:<script>alert(1)</script>&:b"]
    assert "<script" not in pages(evaluation.data_docs)["validations/edge_types.html"]


def test_the_parent_does_not_import_great_expectations() -> None:
    code = "import sys, partition_ops.stages.validate.validate; sys.exit('great_expectations' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_pages_and_lists_of_a_failed_validation_are_deleted(tmp_path: Path) -> None:
    """They would show findings that have been corrected since."""
    folder = library(layout=Layout("csv")).write(tmp_path / "graph")
    file = folder / "edges/1-0.csv"
    sound = file.read_text()
    file.write_text("5,5\n" + sound.partition("\n")[2])
    out = open_store(str(tmp_path / "out"))
    with pytest.raises(InvalidInputError):
        validate_graph(ValidateConfig(data_docs=True), open_store(str(folder)), out)
    assert out.exists("validation/data_docs/index.html")
    out.write_bytes("validation/dropped/paper:cites:paper.npy", b"")
    file.write_text(sound)
    validate_graph(ValidateConfig(), open_store(str(folder)), out)
    assert [entry.key for entry in out.list("validation/")] == [layout.VALIDATION_REPORT]


@pytest.mark.long
def test_the_code_of_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = PROJECT / "docs/expectations.md"
    suite, code = blocks_of(page)
    monkeypatch.chdir(tmp_path)
    Path("expectations").mkdir()
    Path("expectations/isolated.json").write_text(suite.text)
    tables = good()
    for row, share in zip(tables["node_types"], (0.0312, 0.01), strict=True):
        row["isolated_share"] = share
    exec(compile(code.text, str(page), "exec"), {"tables": tables})
    assert f"    {capsys.readouterr().out}" in page.read_text()
