"""Digests of the input that are computed ahead."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from partition_ops.chunked import digests
from partition_ops.chunked.digests import hashed_ahead, input_digest
from partition_ops.chunked.metadata import load_metadata
from partition_ops.errors import InvalidInputError
from partition_ops.storage.local_store import LocalStore
from tests.graphs import Edges, SmallGraph


@pytest.fixture
def source(tmp_path: Path) -> LocalStore:
    SmallGraph({"a": 3}, {"a:r:a": Edges([0, 1], [2, 2]), "a:s:a": Edges([0], [1])}).write(tmp_path)
    return LocalStore(tmp_path)


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The names of the files that are hashed when they are asked for."""
    names: list[str] = []

    def sha256_of(path: Path) -> str:
        names.append(path.name)
        return hashlib.sha256(path.read_bytes()).hexdigest()

    monkeypatch.setattr(digests, "sha256_of", sha256_of)
    yield names


def wait_for(source: LocalStore, files: int) -> None:
    end = time.monotonic() + 30
    while len(digests._known.get(source, {})) < files and time.monotonic() < end:
        time.sleep(0.01)


def expected(source: LocalStore, key: str) -> str:
    return hashlib.sha256(source.path(key).read_bytes()).hexdigest()


def test_files_that_were_hashed_ahead_are_not_read_again(source: LocalStore, read: list[str]) -> None:
    keys = load_metadata(source).files()
    with hashed_ahead(source):
        wait_for(source, len(keys))
    assert [input_digest(source, key) for key in keys] == [expected(source, key) for key in keys]
    assert read == []


def test_a_file_that_has_changed_since_is_hashed_again(source: LocalStore, read: list[str]) -> None:
    key, *others = load_metadata(source).files()
    with hashed_ahead(source):
        wait_for(source, 1 + len(others))
    source.path(key).write_bytes(source.path(key).read_bytes()[::-1])
    assert input_digest(source, key) == expected(source, key)
    assert read == [Path(key).name]


def test_files_that_are_left_are_hashed_when_they_are_needed(
    source: LocalStore, read: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(digests, "_hash_files", lambda *_: None)
    with hashed_ahead(source):
        pass
    key = load_metadata(source).files()[0]
    assert input_digest(source, key) == expected(source, key)
    assert read == [Path(key).name]


def test_errors_are_left_to_those_who_read_the_files(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    with hashed_ahead(store):
        pass
    with pytest.raises(InvalidInputError):
        input_digest(store, "edges.csv")
