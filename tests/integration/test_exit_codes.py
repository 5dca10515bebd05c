"""Exit codes of the command line: 0 for success, 2 for wrong use, 3 for bad input, 1 for the rest.

`@NAME` is a path in the folder of the fixture: @library and others are graphs, @done is a finished output,
@damaged has one wrong bit, @empty is an empty folder, and @nothing does not exist.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from tests.golden.make_same_bytes import call
from tests.golden.same_bytes_graphs import graphs

TWO = "--num-parts 2"
CALLS = {
    0: (
        "--version",
        "run --help",
        "validate @defects --no-data-docs --on-defect warn",
        "validate @dtypes --no-data-docs",
        "verify @library @done",
        "changes @grown @done",
        "fetch @done --part 0 1 --to @fetched",
    ),
    1: (
        f"run @library @gate {TWO} --max-edge-cut 0",
        "verify @library @damaged",
        "fetch @damaged --part 0 1 --to @fetched_damaged",
    ),
    2: (
        "",
        "nonsense",
        "run @library @x",
        "run @library @x --num-parts 1000",
        f"run @library @x {TWO} --no-such-option",
        f"run @library @x {TWO} --engine two-level --objective vol",
        f"run @library @x {TWO} --balance-ntypes nonsense",
        f"run @library @x {TWO} --target-shares 1,1,1",
        f"run @library @x {TWO} --on-defect nonfinite_values=drop",
        f"run @library @x {TWO} --max-moved 0.1",
        f"run @library @x {TWO} --previous @x",
        "schema @library",
        "prepare @library --output @x --weights one",
        "prepare @library --output @x --format parmetis --attributes nonsense",
        "fetch @done --part 2 --to @fetched",
        "idmap restore @done --node-type nonsense --input @rows.npy --output @x.npy",
        "retain @done --keep -1",
    ),
    3: (
        f"run @nothing @x {TWO}",
        f"run @defects @x {TWO}",
        f"run @no_json @x {TWO}",
        f"run @no_file @x {TWO}",
        f"run @out_of_range @x {TWO}",
        f"run @wrong_count @x {TWO}",
        f"run @library @x {TWO} --previous @nothing",
        "validate @defects --no-data-docs",
        f"partition @library --output @empty {TWO} --engine metis",
        "convert @library --output @empty",
        "idmap export @library --output @empty",
        "quality @library --output @empty",
        "publish @library --output @empty",
        "verify @defects @done",
        "changes @library @nothing",
        "fetch @nothing --part 0 --to @fetched",
        "idmap restore @done --node-type paper --input @rows.npy --output @x.npy",
        "idmap carry-over @done @nothing --output @maps",
        "convert-partition --input-dir @empty --graph-name library --schema @done/schema/library.json"
        f" {TWO} --num-node-weights 3 --output @x",
        "retain @done --keep 1",
    ),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("calls")
    for name in ("library", "defects", "dtypes", "grown"):
        graphs()[name].write(root / name)
    for name in ("no_json", "no_file", "out_of_range", "wrong_count"):
        graphs()["csv"].write(root / name)
    (root / "no_json/metadata.json").write_text("{")
    (root / "no_file/edges/0-0.csv").unlink()
    edges = root / "out_of_range/edges/0-0.csv"
    edges.write_text(edges.read_text().replace("\n", "9999\n", 1))
    edges = root / "wrong_count/edges/0-0.csv"
    edges.write_text(edges.read_text() + "0 1\n")
    (root / "empty").mkdir()
    np.save(root / "rows.npy", np.zeros((7, 2)))
    assert call(f"run @library @done {TWO} --engine random", root) == 0
    shutil.copytree(root / "done", root / "damaged")
    damaged = root / "damaged/partitions/part1/graph.dgl"
    data = bytearray(damaged.read_bytes())
    data[len(data) // 2] ^= 1
    damaged.write_bytes(data)
    return root


@pytest.mark.parametrize(
    ("code", "words"), [(code, words) for code, calls in CALLS.items() for words in calls]
)
def test_exit_code(code: int, words: str, folder: Path) -> None:
    assert call(words, folder) == code
