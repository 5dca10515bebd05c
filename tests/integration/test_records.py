"""A record that is broken or gone, in a finished output: its task is done again, and the rest stays."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from partition_ops.artifacts import layout
from partition_ops.cli import main
from partition_ops.jobs.options import RunConfig
from partition_ops.jobs.whole_job import run_job
from partition_ops.storage import Store, open_store
from tests.graphs import library

CONFIG = RunConfig(num_parts=2, engine="metis")
BROKEN = {
    "convert-part0": b"",
    "convert-plan": b"{}",
    "convert-config": b"[]",
    "idmap": b'{"version": 1, "task": "idm',
    "quality": b"\xff",
    "validate": b"",
    "convert-part1": None,
}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return open_store(str(library().write(tmp_path_factory.mktemp("records") / "in")))


@pytest.fixture
def out(source: Store) -> Store:
    """A finished output; that of the test before."""
    out = open_store(str(Path(source.uri).with_name("out")))
    run_job(CONFIG, source, out)
    return out


def content(store: Store) -> dict[str, bytes]:
    return {entry.key: store.read_bytes(entry.key) for entry in store.list() if "records/" not in entry.key}


@pytest.mark.parametrize("name", BROKEN)
def test_the_task_is_done_again(source: Store, out: Store, name: str) -> None:
    expected = content(out)
    broken = BROKEN[name]
    if broken is None:
        out.delete([layout.record(name)])
    else:
        out.write_bytes(layout.record(name), broken)
    results = run_job(replace(CONFIG, check_artifacts=name == "idmap"), source, out)
    again = {result.task for result in results if not result.skipped}
    more = {"convert-plan", "convert-scatter"} if name.startswith("convert-part") else set()
    assert again == {name, "publish", *more}
    assert content(out) == expected


def test_what_the_task_does_not_write_again_goes(source: Store, out: Store) -> None:
    expected = content(out)
    words = [source.uri, "--output", out.uri]
    assert main(["idmap", "export", *words, "--vectors", "--part-maps"]) == 0
    assert main(["publish", *words]) == 0
    assert content(out).keys() > expected.keys()
    out.write_bytes(layout.record("idmap"), b"")
    run_job(CONFIG, source, out)
    assert content(out) == expected
