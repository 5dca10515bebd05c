"""The examples with tables can be partitioned again, unchanged and grown."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import partition_ops
from tests.contributing import ROOT

EXAMPLES = sorted((ROOT / "examples").glob("*/graph.yaml"))
GROWN = {
    "debian_packages": {
        "packages.csv.gz": "zz-new,python,A New Maintainer,31,10000\n",
        "dependencies.csv.gz": "zz-new,depends,python3\nzz-new,depends,zz-virtual\n",
    }
}
NEW = {"debian_packages": {"package": 2, "maintainer": 1}}


def test_every_example_with_tables_grows() -> None:
    assert {path.parent.name for path in EXAMPLES} == {*GROWN} == {*NEW}


@pytest.mark.long
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.parent.name)
def test_an_example_is_partitioned_again(example: Path, tmp_path: Path) -> None:
    name, folder = example.parent.name, tmp_path / "tables"
    shutil.copytree(example.parent, folder)

    def run(output: str, **more: Any) -> dict[str, Any]:
        where = folder / "graph.yaml", tmp_path / output
        result = partition_ops.run(
            *where, num_parts=2, effort="fast", on_defect={"duplicate_edges": "drop"}, **more
        )
        return result.quality

    run("first")
    again = run("again", previous=tmp_path / "first")
    assert {one["new"] for one in again["migration"]["node_types"].values()} == {0}
    first, second = (
        [json.loads((tmp_path / output / "ingest/metadata.json").read_text())["num_nodes_per_type"]]
        for output in ("first", "again")
    )
    assert first == second
    for file, rows in GROWN[name].items():
        with gzip.open(folder / file, "at") as table:
            table.write(rows)
    grown = run("grown", previous=tmp_path / "again")
    assert {key: one["new"] for key, one in grown["migration"]["node_types"].items()} == NEW[name]
    assert partition_ops.verify(folder / "graph.yaml", tmp_path / "grown", tables=True).passed
