"""The allow-list of roots: no spelling of a URI opens a root outside of it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from graph_partitioning.hooks.storage import GraphStorageHook
from hypothesis import given
from hypothesis import strategies as st

from partition_ops.cli import main
from partition_ops.errors import UsageError
from partition_ops.stages.partition.mpi.mpirun import mpirun_command
from partition_ops.stages.partition.mpi.options import MpiOptions
from partition_ops.storage import open_store, s3_store
from partition_ops.storage.uris import VARIABLE

# names that are prefixes of each other, '..', detours, and links into and out of the root
PARTS = st.sampled_from(
    ["in", "in-evil", "i", "..", ".", "", "link-in", "link-out", "link-up", "new", "%2e%2e"]
)
S3_PARTS = st.sampled_from(
    ["graphs", "graphs-evil", "graph", "in", "in-evil", "..", ".", "", "%2e%2e", "in "]
)


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Yield a folder in which only ``in`` is allowed."""
    root = tmp_path_factory.mktemp("roots")
    for folder in ("in/in", "in-evil/in", "i"):
        (root / folder).mkdir(parents=True)
    (root / "link-in").symlink_to(root / "in")
    (root / "in" / "link-out").symlink_to(root / "in-evil")
    (root / "in" / "link-in").symlink_to(root / "in" / "in")
    (root / "in" / "link-up").symlink_to("..")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")  # boto3 would look for credentials over the network
        patch.setenv(VARIABLE, f"{root}/in s3://graphs/in s3://whole-bucket")
        patch.setattr(
            s3_store, "make_client", cache(s3_store.make_client)
        )  # each call takes a tenth of a second
        yield root


def accepted(uri: str) -> bool:
    try:
        open_store(uri).close()
    except UsageError:
        return False
    return True


@given(parts=st.lists(PARTS, max_size=6), as_file=st.booleans())
def test_local_roots_are_compared_after_resolving_links(tree: Path, parts: list[str], as_file: bool) -> None:
    path = "/".join([str(tree), *parts])
    # os.path is independent of the code: it decodes nothing and resolves link by link
    real = os.path.realpath(path.replace("%2e%2e", "..") if as_file else path)
    allowed = os.path.realpath(tree / "in")
    inside = os.path.commonpath([real, allowed]) == allowed
    assert accepted(f"file://{path}" if as_file else path) == inside


@given(parts=st.lists(S3_PARTS, min_size=1, max_size=5), slash=st.sampled_from(["", "/"]))
def test_s3_roots_are_compared_by_whole_names(tree: Path, parts: list[str], slash: str) -> None:
    bucket, *prefix = parts
    plain = not {"", ".", ".."} & set(prefix)
    inside = bucket == "graphs" and prefix[:1] == ["in"] and plain
    if plain or bucket != "graphs":  # URIs that are not normalised are rejected, see below
        assert accepted("s3://" + "/".join(parts) + slash) == inside


@given(parts=st.lists(S3_PARTS, min_size=1, max_size=5))
def test_stores_on_s3_are_inside_the_allowed_roots(tree: Path, parts: list[str]) -> None:
    try:
        store = open_store("s3://" + "/".join(parts))
    except UsageError:
        return
    with store:
        assert (store.uri + "/").startswith("s3://graphs/in/")
        assert ".." not in store.uri.split("/")


def test_a_bucket_allows_what_is_in_it(tree: Path) -> None:
    assert accepted("s3://whole-bucket") and accepted("s3://whole-bucket/x/y")
    assert not accepted("s3://whole-bucket-2/x")


@pytest.mark.parametrize(("listed", "expected"), [(None, True), ("", False), (" \n", False), ("/", True)])
def test_no_list_allows_everything_and_an_empty_one_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, listed: str | None, expected: bool
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    if listed is not None:
        monkeypatch.setenv(VARIABLE, listed)
    assert accepted(str(tmp_path)) == expected
    assert accepted("s3://graphs/in") == (listed is None)


@pytest.mark.parametrize(
    "entry", ["relative/path", "s3://", "s3:///x", "s3://b/../c", "http://host/x", "file://x"]
)
def test_a_list_with_a_mistake_allows_nothing(monkeypatch: pytest.MonkeyPatch, entry: str) -> None:
    monkeypatch.setenv(VARIABLE, f"/tmp {entry}")
    with pytest.raises(UsageError, match="malformed entry"):
        open_store("/tmp")


def test_a_cycle_of_links_is_rejected(tree: Path, tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    assert not accepted(str(tmp_path / "a" / "x"))


def test_the_command_line_says_what_is_allowed(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", "s3://graphs-evil/in"]) == 2
    message = capsys.readouterr().err
    assert "'s3://graphs-evil/in'" in message and "s3://graphs/in" in message and VARIABLE in message


def test_pages_of_airflow_serve_nothing_from_outside(tree: Path) -> None:
    (tree / "i" / "manifest.json").write_text("{}")
    with pytest.raises(UsageError, match="outside"):
        GraphStorageHook(None).stream(str(tree / "i"), "manifest.json")
    with pytest.raises(UsageError, match="outside"):
        GraphStorageHook(None).stream("s3://graphs-evil/in", "manifest.json")


def test_a_hostfile_outside_of_the_roots_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "hosts").write_text("localhost\n")
    options = MpiOptions(ranks=1, mpirun="true", hostfile=str(tmp_path / "hosts"))
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    assert mpirun_command(options)[1:3] == ["--hostfile", str(tmp_path / "hosts")]
    monkeypatch.setenv(VARIABLE, "s3://graphs")
    with pytest.raises(UsageError, match="outside of the allowed roots"):
        mpirun_command(options)
