"""The history grows by one entry from run to run, and a run that is done again says the same."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from partition_ops.artifacts import layout
from partition_ops.errors import InvalidInputError
from partition_ops.jobs.options import RunConfig
from partition_ops.jobs.whole_job import run_job
from partition_ops.stages.quality.history import LONGEST, earlier_entries
from partition_ops.stages.quality.local_times import moment
from partition_ops.stages.quality.options import QualityConfig
from partition_ops.stages.quality.page_sections import history_section
from partition_ops.stages.quality.quality import renew_report, report_quality
from partition_ops.storage import Store, open_store
from partition_ops.system.json_documents import check_document
from partition_ops.verification import verify_output
from tests.graphs import library
from tests.growth import grown

CONFIG = RunConfig(num_parts=2, engine="metis")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Store, list[Store]]:
    """The input of the last of three runs over a graph that grows, and their roots."""
    folder = tmp_path_factory.mktemp("chain")
    graph, runs, source = library(papers=120), [], None
    for number in range(3):
        source = open_store(str(graph.write(folder / f"in{number}")))
        out = open_store(str(folder / f"out{number}"))
        run_job(CONFIG, source, out, previous=runs[-1] if runs else None)
        graph = grown(graph, seed=number + 1)
        runs.append(out)
    assert source is not None
    return source, runs


@pytest.fixture
def chain(made: tuple[Store, list[Store]], tmp_path: Path) -> Iterator[tuple[Store, list[Store]]]:
    """The same, and whatever a test does to the last run is undone: its root is a part of what it says."""
    last = Path(made[1][-1].uri)
    shutil.copytree(last, tmp_path / "before")
    yield made
    shutil.rmtree(last)
    shutil.move(tmp_path / "before", last)


def entries(run: Store) -> list[dict]:
    document = run.read_json(layout.QUALITY_HISTORY)
    check_document(document, "history", where=run.uri)
    found: list[dict] = document["entries"]
    return found


def test_each_run_adds_its_figures_and_the_time_of_the_one_before(chain: tuple[Store, list[Store]]) -> None:
    _, runs = chain
    assert [len(entries(run)) for run in runs] == [1, 2, 3]
    last = entries(runs[2])
    assert [entry.get("run") for entry in last] == [runs[0].uri, runs[1].uri, None]
    assert [entry["mode"] for entry in last] == ["full", "incremental", "incremental"]
    for run, entry in zip(runs, last, strict=True):
        report = run.read_json(layout.QUALITY_REPORT)
        assert entry["num_edges"] == report["num_edges"]
        assert entry["edge_cut"] == report["edge_cut"]["fraction"]
    for run, entry in zip(runs[:2], last[:2], strict=True):
        assert entry["seconds"]["partition"] == run.read_json("records/partition.json")["seconds"]
        written = datetime.fromtimestamp(Path(run.uri, layout.MANIFEST).stat().st_mtime, tz=UTC)
        assert datetime.fromisoformat(entry["published"]) == written.replace(microsecond=0)
    assert "published" not in last[-1]
    sizes = [entry["num_nodes"] for entry in last]
    assert sizes == sorted(sizes) and "seconds" not in last[-1]


def test_a_report_that_is_written_again_is_the_same(chain: tuple[Store, list[Store]]) -> None:
    source, runs = chain
    keys = (layout.QUALITY_HISTORY, layout.QUALITY_PAGE)
    before = [runs[2].read_bytes(key) for key in keys]
    assert report_quality(QualityConfig(), source, runs[2], previous=runs[1]).skipped
    assert renew_report(QualityConfig(), "small", runs[2]).skipped  # without the run before
    manifest = Path(runs[1].uri, layout.MANIFEST)
    time = manifest.stat().st_mtime
    os.utime(manifest, (time + 3600, time + 3600))  # as a copy of the run may have it
    assert report_quality(QualityConfig(), source, runs[2], previous=runs[1]).skipped
    os.utime(manifest, (time, time))
    runs[2].delete([layout.record("quality")])
    assert not report_quality(QualityConfig(), source, runs[2], previous=runs[1]).skipped
    assert [runs[2].read_bytes(key) for key in keys] == before


def test_it_is_an_artifact_of_the_run(chain: tuple[Store, list[Store]]) -> None:
    source, runs = chain
    assert layout.QUALITY_HISTORY in {
        entry["key"] for entry in runs[2].read_json(layout.MANIFEST)["artifacts"]
    }
    assert verify_output(source, runs[2]).passed


def test_the_page_draws_it_once_there_is_something_to_compare(chain: tuple[Store, list[Store]]) -> None:
    _, runs = chain
    pages = [run.read_bytes(layout.QUALITY_PAGE).decode() for run in runs]
    assert ["From run to run" in page for page in pages] == [False, True, True]
    assert not re.search(r'(src|href)="https?:', pages[2])
    assert [page.count("<script") for page in pages] == [0, 1, 1]
    ends = re.findall(r"<text[^>]*>([^<]*)</text>\n(?=<text[^>]*>this run<)", pages[2])
    assert len(ends) >= 5 and set(ends) == {moment(entries(runs[2])[0]["published"])}
    older = [{name: entry[name] for name in entry if name != "published"} for entry in entries(runs[2])]
    section = history_section({"entries": older})  # of version 0.2.0
    assert "UTC" not in section and "<circle" in section


def test_it_does_not_grow_for_ever(chain: tuple[Store, list[Store]]) -> None:
    _, runs = chain
    document = runs[2].read_json(layout.QUALITY_HISTORY)
    many = {**document, "entries": [document["entries"][0]] * (LONGEST + 5) + document["entries"][-1:]}
    written = runs[2].write_bytes(layout.QUALITY_HISTORY, json.dumps(many).encode())
    with pytest.raises(InvalidInputError, match=r"history\.json is not the file that the run wrote"):
        earlier_entries(runs[2])
    manifest = runs[2].read_json(layout.MANIFEST)
    kept = [entry for entry in manifest["artifacts"] if entry["key"] != written.key]
    runs[2].write_json(layout.MANIFEST, {**manifest, "artifacts": [*kept, written.to_json()]})
    found = earlier_entries(runs[2])
    assert len(found) == LONGEST and found[-1]["run"] == runs[2].uri
