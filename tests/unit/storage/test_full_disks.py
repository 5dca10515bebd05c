"""Errors of a full disk, also if what filled it has been given back."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from partition_ops.errors import StorageError
from partition_ops.storage.local_errors import explain_full_disk


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_an_error_about_a_full_disk_names_the_folder(code: int, tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=f"no space left in {tmp_path}"), explain_full_disk(tmp_path):
        raise OSError(code, "full")
    with pytest.raises(StorageError), explain_full_disk(tmp_path):
        raise OSError(code, "full", str(tmp_path / "deep" / "file"))


@pytest.mark.parametrize(
    "error",
    [OSError(errno.EIO, "broken"), ValueError("odd"), OSError(errno.ENOSPC, "broken", "/elsewhere/file")],
)
def test_other_errors_stay_as_they_are(error: Exception, tmp_path: Path) -> None:
    with pytest.raises(type(error), match=r"broken|odd") as raised, explain_full_disk(tmp_path):
        raise error
    assert raised.value is error
