"""What a process knows of objects that nobody else changes."""

from __future__ import annotations

import pytest

from partition_ops.storage import s3_known
from partition_ops.storage.s3_known import ABSENT, Known, KnownObjects
from partition_ops.storage.store import StoredObject

A = StoredObject("out/a", 1, "tag", 5.0)


def test_nothing_is_known_without_a_snapshot() -> None:
    known = KnownObjects()
    known.wrote(A, b"1")
    assert known.find("out/a") is None and known.below("out/") is None


def test_a_complete_snapshot_knows_what_is_missing() -> None:
    known = KnownObjects()
    with known.snapshot("out/", [A], complete=True, but=["out/lock"]):
        assert known.find("out/a") == Known(A)
        assert known.find("out/b") == ABSENT
        assert known.find("other/b") is None and known.find("out/lock") is None
        assert known.below("out/") == [A] and known.below("out/b") == []
    assert known.find("out/a") is None


def test_an_incomplete_snapshot_learns() -> None:
    known = KnownObjects()
    with known.snapshot("", [], complete=False):
        assert known.find("out/a") is None and known.below("out/") is None
        known.learn(A, "out/a", b"1")
        assert known.find("out/a") == Known(A, b"1")


def test_changes_of_this_process_are_known() -> None:
    known = KnownObjects()
    with known.snapshot("", [A], complete=True):
        known.changing("out/a")
        assert known.find("out/a") is None and known.below("") is None
        known.learn(A, "out/a", b"1")  # of a request that was sent before the change
        assert known.find("out/a") is None
        new = StoredObject("out/a", 2, "other")
        known.wrote(new, b"22")
        known.learn(A, "out/a", b"1")
        assert known.find("out/a") == Known(new, b"22")
        known.removed("out/a")
        assert known.find("out/a") == ABSENT and known.below("") == []


def test_contents_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s3_known, "SMALL_BYTES", 4)
    monkeypatch.setattr(s3_known, "MEMORY_BYTES", 6)
    known = KnownObjects()
    names = ("large", "first", "second", "third")
    with known.snapshot("", [], complete=True):
        for name, data in zip(names, (b"12345", b"123", b"1234", b"123"), strict=True):
            known.wrote(StoredObject(name, len(data), "t"), data)
        contents = [found.data for name in names if (found := known.find(name))]
        assert contents == [None, b"123", None, b"123"]
        known.removed("first")
        known.wrote(StoredObject("second", 3, "t"), b"123")
        assert known.find("second") == Known(StoredObject("second", 3, "t"), b"123")
