"""The list of graphs and the schedule of `repartition_graph`."""

from __future__ import annotations

import json
import re
import runpy
import traceback
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import Asset, AssetAny
from graph_partitioning.operators.repartition import read_graph_list
from graph_partitioning.options import run_config

from partition_ops.errors import InvalidInputError
from partition_ops.system.json_documents import schema_document

DAGS = Path(__file__).parents[3] / "dags"


LIST = """
version: 1
defaults: {output_uri: s3://out, num_parts: 8}
graphs:
  - input_uri: s3://in/a
  - {input_uri: s3://in/b, num_parts: 2, max_edge_cut: 0.3}
"""


def test_the_list_has_the_settings_of_each_graph(tmp_path: Path) -> None:
    (tmp_path / "graphs.yaml").write_text(LIST)
    assert read_graph_list(str(tmp_path / "graphs.yaml"), None) == [
        {"output_uri": "s3://out", "num_parts": 8, "input_uri": "s3://in/a"},
        {"output_uri": "s3://out", "num_parts": 2, "input_uri": "s3://in/b", "max_edge_cut": 0.3},
    ]


def test_the_example_of_the_documentation_is_a_list(tmp_path: Path) -> None:
    text = (DAGS.parent / "docs" / "schedule.md").read_text()
    example, _, of_alerts = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    (tmp_path / "graphs.yaml").write_text(example)
    graphs = read_graph_list(str(tmp_path / "graphs.yaml"), None)
    assert [run_config(graph).num_parts for graph in graphs] == [8, 16]
    (tmp_path / "graphs.yaml").write_text(of_alerts)
    graphs = read_graph_list(str(tmp_path / "graphs.yaml"), None)
    assert [graph["alerts"] for graph in graphs] == ["owners, oncall", "owners"]


def test_the_list_may_be_an_airflow_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_VAR_MY_GRAPHS", LIST)
    assert len(read_graph_list("variable:my_graphs", None)) == 2


@pytest.mark.parametrize("text", ["s3cret: [", "version: 1\ngraphs: [s3cret]", "s3cret", "s3cret: &a [*a]"])
def test_the_content_of_a_variable_is_not_shown(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_VAR_OTHER", text)
    with pytest.raises(InvalidInputError, match="'OTHER' is not a valid list of graphs") as caught:
        read_graph_list("variable:OTHER", None)
    assert "s3cret" not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize(
    "text",
    [
        "a: &a [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n"
        + "".join(f"{b}: &{b} [{', '.join([f'*{a}'] * 10)}]\n" for a, b in pairwise("abcdefghijk")),
        "graphs: &a [*a]",
    ],
)
def test_aliases_of_aliases_are_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "graphs.yaml").write_text(text)
    with pytest.raises(InvalidInputError, match="is too large"):
        read_graph_list(str(tmp_path / "graphs.yaml"), None)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("version: 1\ngraphs: [{input_uri: a, output_uri: b, max_edgecut: 0.1}]", "max_edgecut"),
        ("version: 1\ngraphs: [{input_uri: a}]", "output_uri"),
        ("version: 1\ngraphs: {input_uri: a}", "graphs"),
        ("version: 2\ngraphs: []", "version"),
        ("graphs: [", "not valid YAML"),
        (f"version: {'9' * 5000}", "not valid YAML"),
        ("version: 2024-99-99", "not valid YAML"),
        ("version: 1\ngraphs: [{input_uri: /a, output_uri: /b}, {input_uri: /a, output_uri: /b/}]", "twice"),
    ],
)
def test_a_list_with_a_mistake_is_refused(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "graphs.yaml").write_text(text)
    with pytest.raises(InvalidInputError, match=said):
        read_graph_list(str(tmp_path / "graphs.yaml"), None)


def test_settings_of_the_list_are_the_params_of_the_dag() -> None:
    known = schema_document("graph_settings")["propertyNames"]["enum"]
    assert known == list(runpy.run_path(str(DAGS / "partition_graph.py"))["dag"].params)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", None),
        ("0 3 * * *", "0 3 * * *"),
        ("asset:updates", AssetAny(Asset("updates"))),
        ("asset:updates, s3://graphs/a", AssetAny(Asset("updates"), Asset(uri="s3://graphs/a"))),
    ],
)
def test_the_schedule_is_configuration(text: str, expected: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAPH_PARTITIONING_SCHEDULE", text)
    names = runpy.run_path(str(DAGS / "repartition_graph.py"))
    assert names["schedule"](text) == expected
    dag = names["dag"]
    assert dag.max_active_runs == 1
    assert dag.task_ids == ["graphs", "graph.changes", "graph.partition"]
    assert json.dumps(dag.params.validate())
