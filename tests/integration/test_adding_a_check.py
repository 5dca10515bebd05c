"""A check that is added as CONTRIBUTING.md says is in everything that follows from the checks."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.contributing import Checkout
from tests.graphs import Edges, Layout, SmallGraph

pytestmark = pytest.mark.long

CHECK = "partition_ops/stages/validate/checks/zero_id_edges.py"
TEST = "tests/unit/stages/validate/test_zero_id_edges.py"
EDGES = {
    "a:r:b": Edges([0, 1, 0, 2], [0, 1, 1, 0], Layout("csv", (2, 2))),
    "b:s:a": Edges([1, 1], [0, 2], Layout("parquet")),
}


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """A copy of the library with the check, and its test, that CONTRIBUTING.md adds."""
    copy = Checkout(tmp_path_factory.mktemp("checkout"))
    copy.add(CHECK)
    copy.add(TEST)
    return copy


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(SmallGraph({"a": 3, "b": 2}, EDGES).write(tmp_path_factory.mktemp("graph")))


def test_listing_the_checks_imports_nothing_heavy() -> None:
    code = (
        "import sys; from partition_ops.stages.validate.checks import CHECKS;"
        " sys.exit(bool({'numpy', 'pyarrow', 'numba'} & set(sys.modules)) or 'metadata' not in CHECKS)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_report_has_the_check_of_contributing(checkout: Checkout, graph: str, tmp_path: Path) -> None:
    said = checkout.run("validate", graph, "--output", str(tmp_path))
    assert "warn    2 zero_id_edges of 'a:r:b'" in said
    report = json.loads((tmp_path / "validation/report.json").read_text())
    (defect,) = (one for one in report["defects"] if one["check"] == "zero_id_edges")
    assert (defect["name"], defect["count"], defect["severity"]) == ("a:r:b", 2, "warning")
    assert [(e["file"], e["row"], e["edge_id"], e["src"], e["dst"]) for e in defect["examples"]] == [
        ("edges/0-0.csv", 0, 0, 0, 0),
        ("edges/0-1.csv", 0, 2, 0, 1),
    ]
    counts = {row["name"]: row["zero_id_edges"] for row in report["metrics"]["edge_types"]}
    assert counts == {"a:r:b": 2, "b:s:a": 0}
    (outcome,) = (one for one in report["expectations"] if one["check"] == "zero_id_edges")
    assert not outcome["success"]
    pages = tmp_path / "validation/data_docs/validations/edge_types.html"
    assert "zero_id_edges" in pages.read_text()


def test_the_check_of_contributing_has_actions(checkout: Checkout, graph: str, tmp_path: Path) -> None:
    assert "zero_id_edges" in checkout.run("validate", "--help")
    said = checkout.run("validate", graph, "--on-defect", "zero_id_edges=fail", code=3)
    assert "no zero_id_edges (where an edge starts at the node with ID 0)" in said
    output = str(tmp_path / "out")
    checkout.run("run", graph, output, "--num-parts", "2", "--on-defect", "zero_id_edges=exclude")
    counters = json.loads((tmp_path / "out/records/validate.json").read_text())["counters"]
    assert counters["edges_excluded"] == 2
    checkout.run("verify", graph, output)


def test_the_form_and_the_docs_have_the_check_of_contributing(checkout: Checkout) -> None:
    said = checkout.python(
        "import runpy; dag = runpy.run_path('dags/partition_graph.py')['dag'];"
        " print(dag.params.get_param('on_zero_id_edges').schema['enum'])"
    )
    assert "['warn', 'exclude', 'fail']" in said
    checkout.make_reference()
    page = (checkout.root / "docs/validation.md").read_text()
    assert "| `zero_id_edges` | warning | warn, exclude, fail | edge_types |" in page
    schema = json.loads((checkout.root / "schemas/graph_settings.schema.json").read_text())
    assert "on_zero_id_edges" in schema["propertyNames"]["enum"]


def test_the_test_of_contributing_passes_and_covers_the_check(checkout: Checkout) -> None:
    assert "1 passed" in checkout.test(TEST)
    catalogue = "tests/unit/stages/validate/test_validate_catalogue.py::test_every_check_has_a_test"
    assert "1 passed" in checkout.test(catalogue)
    checkout.make_reference()
    assert "passed" in checkout.test("tests/unit/stages/validate/test_validate_docs.py")
