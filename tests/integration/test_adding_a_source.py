"""A source of tables that is added as CONTRIBUTING.md says is read, proposed by --infer and documented."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import orc

from partition_ops.chunked.metadata import load_metadata
from partition_ops.stages.ingest.sources import ENTRY_POINTS
from partition_ops.storage import open_store
from tests.contributing import ROOT, Checkout, code_block
from tests.tables import ITEMS, RATINGS, USERS

pytestmark = pytest.mark.long

SOURCE = "partition_ops/stages/ingest/sources/orc.py"
TEST = "tests/unit/stages/ingest/test_orc.py"
LINES = 30  # a source of files stays small


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """A copy of the library with the source, and its test, that CONTRIBUTING.md adds."""
    copy = Checkout(tmp_path_factory.mktemp("checkout"))
    copy.add(SOURCE)
    copy.add(TEST)
    return copy


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    """Tables in ORC, and no graph.yaml."""
    folder = tmp_path / "tables"
    folder.mkdir()
    for name, rows in (("users", USERS), ("items", ITEMS), ("ratings", RATINGS)):
        columns = [key for key in rows[0] if key not in ("age", "country", "about")]  # those have nulls
        table = pa.Table.from_pylist([{key: row[key] for key in columns} for row in rows])
        orc.write_table(table, folder / f"{name}.orc")
    return folder


def test_the_source_of_contributing_is_proposed_and_ingested(checkout: Checkout, tables: Path) -> None:
    proposal = checkout.run("ingest", "--infer", str(tables))
    assert "    table: users.orc\n" in proposal
    (tables / "graph.yaml").write_text(proposal)
    checkout.run("ingest", str(tables / "graph.yaml"), str(tables / "graph"))
    metadata = load_metadata(open_store(str(tables / "graph")))
    assert dict(zip(metadata.node_types, metadata.num_nodes, strict=True)) == {"user": 4, "item": 3}


def test_the_docs_and_messages_have_the_source_of_contributing(checkout: Checkout, tables: Path) -> None:
    checkout.make_reference()
    page = (checkout.root / "docs/tables.md").read_text()
    assert "| ORC | `orc` | `.orc` | those of the file |" in page
    korean = "docs/ko/tables.md"  # its rows are translated by hand
    assert (checkout.root / korean).read_text() == (ROOT / korean).read_text()
    (tables / "graph.yaml").write_text(
        "graph_name: g\nnodes: {a: }\nedges: {a:r:a: {table: x.doc, src: s, dst: d}}"
    )
    (tables / "x.doc").touch()
    said = checkout.run("ingest", str(tables / "graph.yaml"), str(tables / "graph"), code=3)
    assert "the name of x.doc does not say its format" in said and ".orc" in said


def test_the_test_of_contributing_passes(checkout: Checkout) -> None:
    assert "1 passed" in checkout.test(TEST)


def test_an_installed_package_brings_a_source(tables: Path, tmp_path: Path) -> None:
    code = code_block(SOURCE)
    assert len(code.splitlines()) < LINES
    entry = "orc = orc_source:OrcSource"
    assert entry in (ROOT / "CONTRIBUTING.md").read_text().replace('"', "")
    (tmp_path / "orc_source.py").write_text(code)
    metadata = tmp_path / "orc_source-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: orc_source\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(f"[{ENTRY_POINTS}]\n{entry}\n")
    done = subprocess.run(
        [sys.executable, "-m", "partition_ops.cli", "ingest", "--infer", str(tables)],
        env={**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT}"},
        capture_output=True,
        text=True,
    )
    assert "    table: users.orc\n" in done.stdout, done.stderr
