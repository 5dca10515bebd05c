"""Every block of the pages about tables runs, in the order of the page."""

from __future__ import annotations

import gzip
import os
import sys
from pathlib import Path

import numpy as np
import pytest

from examples.debian_packages.__main__ import main
from examples.transactions.__main__ import GRAPH
from tests.command_line import Called
from tests.contributing import ROOT
from tests.e2e.guide import blocks_of
from tests.pages import run_blocks


def test_the_page_of_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, called: Called) -> None:
    monkeypatch.chdir(tmp_path)
    names = run_blocks(ROOT / "docs/tables.md", called)
    assert "user:rating:item" in (tmp_path / "proposal.yaml").read_text()
    for output in ("out", "out_of_dgl", "out_of_bin"):
        assert (tmp_path / output / "manifest.json").exists()
    found = names["ingest"].to_dgl("grown")
    assert {*found.nodes["user"].data} >= {"age", "country", "label", "train_mask"}


def test_the_tutorial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, called: Called) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    page, graph = ROOT / "docs/tutorial.md", ROOT / "examples/debian_packages/graph.yaml"
    shown = [block.text for block in blocks_of(page) if block.language == "yaml"]
    assert shown == [graph.read_text()]
    (code,) = [block.text for block in blocks_of(page) if "class Model" in block.text]
    code = code.partition("np.save(")[0].replace('"out"', "sys.argv[1]")
    assert code in (ROOT / "examples/debian_packages/train.py").read_text()
    names = run_blocks(page, called)
    assert "package:dependency:package" in (tmp_path / "proposal.yaml").read_text()
    assert names["accuracy"] > 0.9, names["accuracy"]
    named = {package: predicted for package, _, predicted in names["named"]}
    assert len(named) == 20_707 and named["python3-numpy"] == "python"
    right = sum(section == predicted for _, section, predicted in names["named"])
    assert right > 0.9 * len(named)  # in another order, a tenth of them


@pytest.mark.long
def test_the_page_of_link_prediction(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, called: Called) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    page = ROOT / "docs/link-prediction.md"
    assert [block.text for block in blocks_of(page) if block.language == "yaml"] == [GRAPH]
    names = run_blocks(page, called)
    assert len(names["unlikely"]) == 5 and names["unlikely"][-1][-1] < 0.2
    found = names["duckdb"].sql("""
        SELECT value, a.sector = b.sector FROM 'scores.parquet' JOIN 'tables/payments.csv' ON id = payment
        JOIN 'tables/accounts.csv' a ON payer = a.account JOIN 'tables/accounts.csv' b ON payee = b.account
    """)
    named, same = map(np.array, zip(*found.fetchall(), strict=True))
    assert named[same].mean() - named[~same].mean() > 0.1  # each score is of the payment with its key
    scores, others = np.load("dgl.npy"), np.load("pyg.npy")
    assert len(scores) == len(others) == len(named)
    assert np.corrcoef(scores, others)[0, 1] > 0.5  # both are in one order


def test_the_packages_of_a_machine_become_tables(tmp_path: Path) -> None:
    lists = """\
Package: b
Source: bee (2)
Version: 1
Section: non-free/python
Maintainer: "A, B" <a@b.org>
Installed-Size: 7
Size: 900
Depends: a (>= 1) | c:any, a (<= 2)
Pre-Depends: d
Suggests: e [amd64]
Description: this
 goes on

Package: a
Section: perl
Maintainer: C <c@c.org>
Size: 5

Package: b
Section: python
Maintainer: older
Size: 1
"""
    (tmp_path / "lists").write_text(lists)
    main([str(tmp_path / "tables"), "--input", str(tmp_path / "lists")])
    rows = {
        path.name: gzip.decompress(path.read_bytes()).decode() for path in (tmp_path / "tables").iterdir()
    }
    assert rows["packages.csv.gz"].splitlines()[1:] == ["a,perl,C,,5", 'b,python,"A, B",7,900']
    assert rows["dependencies.csv.gz"].splitlines()[1:] == [
        "b,depends,a",
        "b,depends,c",
        "b,depends,d",
        "b,suggests,e",
    ]
