"""Files and folders that outlive a power failure: syncing, durable copies, and new folders."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

from partition_ops.errors import StorageError
from partition_ops.storage.local_errors import explain_os_errors, nearest_existing, not_a_folder


def make_folder(path: Path) -> list[Path]:
    """Make a folder and its parents durably, and return those that did not exist.

    Args:
        path: The folder.

    Raises:
        StorageError: It cannot be made.
        UsageError: A file has its name, or that of a parent.
    """
    if path.is_dir():
        return []
    existing = nearest_existing(path)
    try:
        with explain_os_errors(path, "made"):
            path.mkdir(parents=True, exist_ok=True)
    except StorageError:
        existing = nearest_existing(path)
        if existing.is_dir():
            raise
        raise not_a_folder(path, existing) from None
    made = []
    while path != existing and path.parent != path:
        made.append(path)
        path = path.parent
        sync_folder(path)
    return made


def sync_folder(folder: Path) -> None:
    """Wait until the entries of a folder are on the disk; a folder that has been removed is ignored."""
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # a file system without it
            raise StorageError(f"{folder} cannot be written to the disk: {error.strerror}") from error
    finally:
        os.close(handle)


def copy_durably(source: Path, target: Path) -> None:
    """Copy the content of a file, and wait until it is on the disk; `sync_folder` does so for its name."""
    shutil.copyfile(source, target)
    with target.open("rb") as stream:
        os.fsync(stream.fileno())
