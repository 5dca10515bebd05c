from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import resource
from pathlib import Path
from typing import cast
from zipfile import ZipFile

import numpy as np
import pytest

from partition_ops.storage import direct_file
from partition_ops.storage.direct_file import BUFFER_BYTES, DirectFile
from partition_ops.storage.local_store import LocalStore
from tests.temporary import on_disk  # noqa: F401

LARGE = 3 * BUFFER_BYTES + 12345


def some_bytes(size: int) -> bytes:
    return np.random.default_rng(size).bytes(size)


SIZES = [0, 1, 4095, 4096, 4097, 8192, BUFFER_BYTES - 1, BUFFER_BYTES, BUFFER_BYTES + 1, LARGE]


@pytest.mark.parametrize("size", SIZES)
def test_the_file_has_the_bytes_and_the_digest(tmp_path: Path, size: int) -> None:
    data, at = some_bytes(size), 0
    with DirectFile(tmp_path / "file") as stream:
        for step in (1, 7, 4096, BUFFER_BYTES + 3, size):
            assert stream.write(memoryview(data)[at : at + step]) == len(data[at : at + step])
            at = min(at + step, size)
            assert stream.tell() == at
    assert (tmp_path / "file").read_bytes() == data
    assert stream.sha256 == hashlib.sha256(data).hexdigest()


def test_whoever_seeks_back_gets_no_digest(tmp_path: Path) -> None:
    data = some_bytes(LARGE)
    with DirectFile(tmp_path / "file") as stream:
        stream.write(data)
        assert stream.seek(0, os.SEEK_CUR) == stream.seek(LARGE) == LARGE
        stream.seek(10)
        stream.write(b"changed")
        assert stream.tell() == 17
        stream.seek(0, os.SEEK_END)
        stream.write(b"more")
    assert (tmp_path / "file").read_bytes() == data[:10] + b"changed" + data[17:] + b"more"
    assert stream.sha256 is None


@pytest.mark.parametrize("size", SIZES)
def test_a_few_bytes_can_follow_a_seek_back(tmp_path: Path, size: int) -> None:
    """Also where the disk has everything, and nothing has gone through the page cache."""
    data = some_bytes(size)
    with DirectFile(tmp_path / "file") as stream:
        stream.write(data)
        stream.seek(size // 2)
        stream.write(b"abc")
    assert (tmp_path / "file").read_bytes() == data[: size // 2] + b"abc" + data[size // 2 + 3 :]


def test_an_archive_can_be_written(tmp_path: Path) -> None:
    data = some_bytes(LARGE)
    with DirectFile(tmp_path / "file") as stream, ZipFile(stream, "w") as archive:
        archive.writestr("large", data)
    with ZipFile(tmp_path / "file") as archive:
        assert archive.read("large") == data


def refuse_unbuffered(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Let a function of ``os`` fail as on file systems that do not write past the page cache."""
    function = getattr(os, name)

    def refuse(first: object, *rest: object) -> object:
        flags = rest[0] if name == "open" else fcntl.fcntl(cast(int, first), fcntl.F_GETFL)
        if cast(int, flags) & direct_file.UNBUFFERED:
            raise OSError(errno.EINVAL, "Invalid argument")
        return function(first, *rest)

    monkeypatch.setattr(direct_file.os, name, refuse)


@pytest.mark.parametrize("name", ["open", "pwrite"])
def test_file_systems_that_always_use_the_page_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    refuse_unbuffered(monkeypatch, name)
    data = some_bytes(LARGE)
    with DirectFile(tmp_path / "file") as stream:
        stream.write(data)
    assert (tmp_path / "file").read_bytes() == data
    assert stream.sha256 == hashlib.sha256(data).hexdigest()


@pytest.mark.parametrize("size", [2 * BUFFER_BYTES, LARGE])  # the first is only known when it is closed
def test_errors_of_the_disk_are_raised(tmp_path: Path, size: int) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    stream = DirectFile(tmp_path / "file")
    resource.setrlimit(resource.RLIMIT_FSIZE, (BUFFER_BYTES, limits[1]))
    try:
        with pytest.raises(OSError, match="too large"), stream:
            stream.write(bytes(size))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert stream.closed


def test_the_first_error_counts(tmp_path: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    stream = DirectFile(tmp_path / "file")
    resource.setrlimit(resource.RLIMIT_FSIZE, (BUFFER_BYTES, limits[1]))
    try:
        with pytest.raises(KeyError), stream:
            stream.write(bytes(2 * BUFFER_BYTES))
            raise KeyError
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert stream.closed


def test_a_large_object_is_hashed_while_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("partition_ops.storage.local_store.sha256_of", None)  # would read the file again
    data = some_bytes(LARGE)
    store = LocalStore(tmp_path)
    with store.create("large") as new, new.open() as stream:
        stream.write(data)
    artifact = new.get_artifact()
    assert (artifact.size, artifact.sha256) == (LARGE, hashlib.sha256(data).hexdigest())
    assert store.read_bytes("large") == data


def test_an_object_that_cannot_be_written_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(KeyError), LocalStore(tmp_path).create("large") as new, new.open() as stream:
        stream.write(bytes(LARGE))
        raise KeyError
    assert not [*tmp_path.iterdir()]
