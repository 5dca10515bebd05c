"""A task that is added as CONTRIBUTING.md says is done once, and again if what it depends on changes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.contributing import Checkout
from tests.graphs import library

TASK = "partition_ops/stages/largest_type/largest_type.py"
PROGRAM = """
import sys
from partition_ops.artifacts.tasks import Task
from partition_ops.stages.largest_type.largest_type import largest_type_task, write_largest_type
from partition_ops.storage import open_store
out = open_store(sys.argv[1])
first, second = write_largest_type(out), write_largest_type(out)
print(first.counters, first.skipped, second.skipped)
print(largest_type_task(out, minimum=5).status().reason)
out.delete(["largest_type/type.json"])
print(largest_type_task(out).status().reason)
"""


@pytest.mark.long
def test_the_task_of_contributing(tmp_path: Path) -> None:
    checkout = Checkout(tmp_path / "checkout")
    checkout.add(TASK)
    graph, out = library(papers=50).write(tmp_path / "in"), tmp_path / "out"
    checkout.run("validate", str(graph), "--output", str(out))
    said = checkout.python(PROGRAM.replace("sys.argv[1]", repr(str(out)))).splitlines()
    assert said[:2] == [
        "{'type': 'paper'} False True",
        "its option 'minimum' was 1 and is 5 now",
    ]
    assert said[2] == "largest_type/type.json is missing, or not as it was written"
    record = json.loads((out / "records/largest-type.json").read_text())
    assert [*record["after"]] == ["validate"]
