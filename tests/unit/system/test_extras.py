"""Packages beyond the base installation: what works without them, and the error that names the extra."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from partition_ops.errors import UsageError
from partition_ops.formats.torch_reader import read_torch_file
from partition_ops.jobs.checks import check_packages
from partition_ops.jobs.open_graph import check_ingest_installed
from partition_ops.jobs.options import RunConfig
from partition_ops.stages.idmap.row_files import RowFile
from partition_ops.storage.local_store import LocalStore
from partition_ops.system.dgl_import import import_dgl
from partition_ops.system.extras import EXTRAS, check_installed, how_to_install, is_installed

PYPROJECT = Path(__file__).parents[3] / "pyproject.toml"


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return a function that makes modules look as if they were not installed."""

    def block(*modules: str) -> None:
        for module in modules:
            monkeypatch.setitem(sys.modules, module, None)

    return block


def test_a_module_that_cannot_be_imported_is_not_installed(without: Callable[..., None]) -> None:
    assert is_installed("json")
    without("json")
    assert not is_installed("json")
    assert not is_installed("a_module_that_nobody_has")


def test_every_extra_exists() -> None:
    extras = tomllib.loads(PYPROJECT.read_text())["project"]["optional-dependencies"]
    assert {extra for _, extra in EXTRAS.values()} <= {*extras}


CASES: dict[str, tuple[str, str, Callable[[], Any]]] = {
    "tables": ("ibis", "tables", lambda: check_ingest_installed("graph.yaml", "duckdb")),
    "DuckDB": ("duckdb", "tables", lambda: check_ingest_installed("graph.yaml", "duckdb")),
    "Spark": ("pyspark", "spark", lambda: check_ingest_installed("graph.yaml", "spark")),
    "graph.bin": ("dgl", "dgl", lambda: check_ingest_installed("graph.bin", "duckdb")),
    "Data Docs": (
        "great_expectations",
        "expectations",
        lambda: check_packages(RunConfig(num_parts=2, data_docs=True), expectations=False),
    ),
    "suites": (
        "great_expectations",
        "expectations",
        lambda: check_packages(RunConfig(num_parts=2), expectations=True),
    ),
    ".pt": ("torch", "pyg", lambda: RowFile(LocalStore(Path("folder")), "rows.pt").suffix),
    "dgl": ("dgl", "dgl", import_dgl),
}


@pytest.mark.parametrize(("module", "extra", "call"), CASES.values(), ids=CASES)
def test_the_error_names_the_extra(
    module: str, extra: str, call: Callable[[], Any], without: Callable[..., None]
) -> None:
    without(module)
    if module in ("pyspark", "duckdb") and not is_installed("ibis"):
        pytest.skip("Ibis is not installed, which is looked for first")
    if module == "pyspark" and not is_installed("duckdb"):
        pytest.skip("DuckDB is not installed, which is looked for first")
    with pytest.raises(UsageError, match=rf"which is not installed.*pip install 'partition-ops\[{extra}\]'"):
        call()


def test_no_other_package_is_needed_for_a_run() -> None:
    check_packages(RunConfig(num_parts=2), expectations=False)


def test_newer_pythons_are_told_where_dgl_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 13, 0))
    assert how_to_install("dgl").startswith("Use Python 3.11")
    monkeypatch.setattr(sys, "version_info", (3, 11, 2))
    assert how_to_install("dgl") == "Install it: pip install 'partition-ops[dgl]'."


def test_what_is_installed_is_no_error() -> None:
    check_installed("This", "json")


def test_files_of_torch_that_are_none(tmp_path: Path) -> None:
    (tmp_path / "file.pt").write_bytes(b"no zip")
    with pytest.raises(ValueError, match="no zip archive"):
        read_torch_file(tmp_path / "file.pt")
