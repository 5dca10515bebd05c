"""The names that `partition_ops` exports, and their reference in docs/."""

from __future__ import annotations

import ast
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import partition_ops
from docs.reference import PAGE, reference
from tests.graphs import library


def test_a_graph_is_partitioned_and_verified_by_two_calls(tmp_path: Path) -> None:
    graph = library().write(tmp_path / "in")
    result = partition_ops.run(graph, tmp_path / "out", num_parts=2, engine="random", seed=3)
    assert Path(result.partition_config).is_file()
    assert result.quality["num_parts"] == 2
    assert not any(task.skipped for task in result.tasks)
    report = partition_ops.verify(str(graph), str(tmp_path / "out"))
    assert report.passed, report.summary()
    again = partition_ops.run(graph, tmp_path / "out", num_parts=2, engine="random", seed=3)
    assert all(task.skipped for task in again.tasks)


def test_an_unknown_option_is_rejected_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="no_such_option"):
        partition_ops.run(tmp_path, tmp_path / "out", num_parts=2, no_such_option=1)
    with pytest.raises(partition_ops.UsageError):
        partition_ops.run(tmp_path, tmp_path / "out", num_parts=2, max_edge_cut=2.0)  # an option of a group
    assert not (tmp_path / "out").exists()


def test_an_output_without_a_manifest_is_not_verified(tmp_path: Path) -> None:
    graph = library().write(tmp_path / "in")
    with pytest.raises(partition_ops.InvalidInputError, match="not a finished output"):
        partition_ops.verify(graph, tmp_path)


def test_the_names_that_type_checkers_see_are_those_that_are_there() -> None:
    tree = ast.parse(Path(partition_ops.__file__).read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    typed = {
        alias.name: node.module
        for node in block.body
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    }
    assert {*typed, "__version__"} == {*partition_ops.__all__}
    for name, module in typed.items():
        assert getattr(partition_ops, name) is getattr(import_module(module), name)


def test_importing_the_package_imports_no_other_module_of_it() -> None:
    code = "import sys, partition_ops; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True)
    modules = done.stdout.split()
    assert [name for name in modules if name.startswith("partition_ops")] == ["partition_ops"]
    assert "numpy" not in modules


def test_converting_ids_does_not_import_torch() -> None:
    code = (
        "import sys, partition_ops; partition_ops.PartitionBook;"
        "meta = {'node_type': ['a'], 'num_nodes_per_type': [2]};"
        "meta |= {'edge_type': ['a:r:a'], 'num_edges_per_type': [1]};"
        "assert partition_ops.IDConverter(meta).nid_hom2het(1) == ('a', 1); assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_the_reference_is_up_to_date() -> None:
    assert PAGE.read_text() == reference(), "run 'make reference'"
