"""Names of run folders and assets."""

from __future__ import annotations

import re

import pytest
from graph_partitioning.assets import published_graph
from graph_partitioning.links import task_path
from graph_partitioning.runs import is_run_root, run_folder, run_root
from hypothesis import given
from hypothesis import strategies as st


@given(st.text(min_size=1, max_size=300))
def test_a_folder_is_one_plain_path_part(run_id: str) -> None:
    folder = run_folder(run_id)
    assert re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", folder)
    assert len(folder) < 200


@given(st.text(max_size=12), st.text(max_size=12))
def test_two_runs_never_share_a_folder(first: str, second: str) -> None:
    assert (run_folder(first) == run_folder(second)) == (first == second)


@given(st.sampled_from(["s3://b/out", "/out", "s3://b/out/"]), st.text(min_size=1), st.text(min_size=1))
def test_a_root_belongs_to_its_run_only(output_uri: str, run_id: str, other: str) -> None:
    root = run_root(output_uri, "graph", run_id)
    assert is_run_root(root, run_id)
    assert is_run_root(root, other) == (run_id == other)
    assert is_run_root(f"{root}/ingest", run_id)
    assert not is_run_root(f"{root}/records", run_id)


@pytest.mark.parametrize(
    ("output_uri", "uri"),
    [
        ("s3://bucket/out", "s3://bucket/out/g/latest.json"),
        ("s3://bucket/out/", "s3://bucket/out/g/latest.json"),
        ("/data/out", "file:///data/out/g/latest.json"),
        ("file:///data/out", "file:///data/out/g/latest.json"),
    ],
)
def test_asset_of_a_graph_is_its_latest_json(output_uri: str, uri: str) -> None:
    assert published_graph(output_uri, "g").uri == uri


def test_path_of_a_task_is_quoted() -> None:
    path = task_path("dag", "manual__2026-01-02T03:04:05+00:00", "convert.gather", 3)
    assert path == "/dags/dag/runs/manual__2026-01-02T03%3A04%3A05%2B00%3A00/tasks/convert.gather/3"
