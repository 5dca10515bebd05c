"""New mapped arrays on a small disk: an error, and not the end of the process, when there is no room."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest

from partition_ops.system.mapped_files import new_array, new_npy
from partition_ops.traffic.sampled_edges import collect_edges

ROOM = 1 << 16  # bytes
Create = Callable[[Path, tuple[int, ...], type], np.ndarray]
CREATES = pytest.mark.parametrize("create", [new_array, new_npy])


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    if os.geteuid() != 0:
        pytest.skip("only root may mount a small disk")
    options = ["-t", "tmpfs", "-o", f"size={ROOM}", "tmpfs", str(tmp_path)]
    if subprocess.run(["mount", *options], stderr=subprocess.DEVNULL).returncode:
        pytest.skip("mounting is not permitted here")
    yield tmp_path
    subprocess.run(["umount", "--lazy", str(tmp_path)], check=True)


@CREATES
def test_a_full_disk_is_an_error_with_the_path(create: Create, small_disk: Path) -> None:
    with pytest.raises(OSError, match=f"No space left.*{small_disk}/array"):
        create(small_disk / "array", (ROOM,), np.int64)


def test_a_full_disk_is_an_error_in_an_unnamed_file(small_disk: Path) -> None:
    with (small_disk / "array").open("w+b") as stream, pytest.raises(OSError, match="No space left"):
        new_array(stream, (ROOM,), np.int64)


def test_room_that_was_not_enough_is_left_to_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fill(file: int, begin: int, size: int) -> None:  # as ext4 does
        os.ftruncate(file, size // 2)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", fill)
    with pytest.raises(OSError, match=f"No space left.*{tmp_path}/array"):
        new_npy(tmp_path / "array", (ROOM,), np.int64)
    assert (tmp_path / "array").stat().st_size == 0


def test_the_edges_of_the_traffic_need_room(small_disk: Path) -> None:
    src = np.arange(20_000) % 1300
    with pytest.raises(OSError, match="No space left"):
        collect_edges(1300, [(0, 1300)], len(src), [(0, src, src)], folder=small_disk)


@CREATES
@pytest.mark.parametrize("shape", [(5,), (3, 2), (0,), (0, 4)])
def test_the_array_is_of_zeros_and_what_is_written_is_in_the_file(
    create: Create, shape: tuple[int, ...], tmp_path: Path
) -> None:
    path = tmp_path / "array"
    array = create(path, shape, np.float32)
    assert not array.any()
    array[...] = values = np.random.default_rng(7).random(shape, np.float32)
    if create is new_npy:
        assert np.array_equal(np.load(path), values)
        np.save(tmp_path / "saved.npy", values)
        assert path.read_bytes() == (tmp_path / "saved.npy").read_bytes()
    else:
        assert (path.read_bytes() if path.exists() else b"") == values.tobytes()


@CREATES
def test_a_disk_that_is_full_already_is_an_error_with_the_path(create: Create, small_disk: Path) -> None:
    with (
        pytest.raises(OSError, match="No space left"),
        (small_disk / "full").open("wb", buffering=0) as stream,
    ):
        while stream.write(bytes(1 << 12)):
            pass
    with pytest.raises(OSError, match=f"No space left.*{small_disk}/array"):
        create(small_disk / "array", (1 << 12,), np.int64)


@CREATES
def test_a_file_system_that_cannot_reserve_room_has_the_file(
    create: Create, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = Mock(side_effect=OSError(errno.EOPNOTSUPP, "Operation not supported"))
    monkeypatch.setattr(os, "posix_fallocate", refused)
    create(tmp_path / "array", (5,), np.int64)[:] = 7
    assert refused.called
    assert np.frombuffer((tmp_path / "array").read_bytes()[-40:], np.int64).tolist() == [7] * 5


@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="no room can be reserved here")
def test_the_file_is_not_sparse(tmp_path: Path) -> None:
    new_array(tmp_path / "array", (1 << 20,), np.int64)
    assert (tmp_path / "array").stat().st_blocks * 512 >= 8 << 20
