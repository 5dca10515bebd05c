"""An option that is added to a stage in a copy of the library, as CONTRIBUTING.md says, is everywhere."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.contributing import Checkout

LOOK = """
import contextlib, io, json, runpy, sys
sys.path[:0] = ["docs"]
import tables
from graph_partitioning.operators.partition import PartitionNodesOperator
from graph_partitioning.options import graph_settings_schema
from partition_ops.cli import dispatch
from partition_ops.jobs.options import RunConfig
from partition_ops.options.arguments import config_of
from partition_ops.stages.partition.options import PartitionConfig

def help_of(verb):
    with contextlib.redirect_stdout(io.StringIO()) as printed, contextlib.suppress(SystemExit):
        dispatch.build_parser().parse_args([verb, "--help"])
    return printed.getvalue()

words = ["run", "in", "out", "--num-parts", "2", "--patience", "5"]
run = config_of(dispatch.build_parser().parse_args(words), RunConfig)
of_stage = run.of(PartitionConfig)
operator = PartitionNodesOperator(task_id="t", input_uri="in", output_uri="out", num_parts="2", patience="7")
dag = runpy.run_path("dags/partition_graph.py")["dag"]
print(json.dumps({
    "help": ["--patience N" in help_of(verb) for verb in ("partition", "run", "estimate")],
    "run": [run.patience, of_stage.patience, of_stage.options()["patience"]],
    "template_fields": "patience" in PartitionNodesOperator.template_fields,
    "operator": operator.config(PartitionConfig).patience,
    "param": dag.params.get_param("patience").schema | {"value": dag.params["patience"]},
    "task": dag.get_task("partition").patience,
    "settings": graph_settings_schema()["properties"]["patience"],
    "table": [line for line in tables.TABLES["options-run"]() if "patience" in line],
}))
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What a copy of the library says in which the option of CONTRIBUTING.md has been added."""
    copy = Checkout(tmp_path_factory.mktemp("checkout"))
    copy.add_option("partition_ops/stages/partition/options.py", "PartitionConfig")
    return json.loads(copy.python(LOOK).splitlines()[-1])


def test_the_command_line_has_the_option(found: Any) -> None:
    assert found["help"] == [True, True, True]
    assert found["run"] == [5, 5, 5]


def test_the_operator_has_the_option(found: Any) -> None:
    assert found["template_fields"]
    assert found["operator"] == 7


def test_the_form_has_the_option_and_hands_it_to_the_task(found: Any) -> None:
    param = {name: found["param"][name] for name in ("type", "minimum", "title", "section", "value")}
    assert param == {"type": "integer", "minimum": 1, "title": "Patience", "section": "Balance", "value": 3}
    assert found["task"] == "{{ params.patience }}"


def test_the_schema_of_settings_has_the_option(found: Any) -> None:
    assert (found["settings"]["type"], found["settings"]["default"]) == ("integer", 3)


def test_the_table_of_the_docs_has_the_option(found: Any) -> None:
    (row,) = found["table"]
    assert row.startswith(
        "| `--patience N` | `patience` | a whole number, 1 or more | `3` | Number of rounds"
    )
