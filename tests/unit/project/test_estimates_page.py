"""The benchmark of estimates marks what is beyond the factor, and keeps the figures of other graphs."""

import json
from pathlib import Path

from benchmarks.estimates import Measured, compare, good, keep
from partition_ops.system.parallel import cores

MIB = 1 << 20


def estimated(seconds: float) -> dict[str, object]:
    stage = {"stage": "whole job", "memory": 100 * MIB, "output": 0, "scratch": 5 * MIB, "temporary": 0}
    return {"stages": [], "whole": {**stage, "cache": 0, "seconds": seconds}}


def test_seconds_are_compared_with_those_of_the_processors() -> None:
    measured = {"whole job": Measured(90 * MIB, 0, 0, 100.0, 10.0)}  # on a machine with other load
    assert [good(*compare(estimated(seconds), measured)) for seconds in (0.6 * 10 / cores(), 9, 16)] == [
        False,
        True,
        False,
    ]


def test_results_of_other_graphs_stay(tmp_path: Path) -> None:
    rows = compare(estimated(9), {"whole job": Measured(200 * MIB, 0, 0, 10.0, 10.0)})
    for graph in ("one", "other", "one"):
        keep({"graph": graph, "options": [], "parts": 4, "stages": rows}, tmp_path)
    document = json.loads((tmp_path / "estimates.json").read_text())
    assert [run["graph"] for run in document["runs"]] == ["other", "one"]
    assert "| one | whole job | 100 / 200 |" in (tmp_path / "estimates.md").read_text()
