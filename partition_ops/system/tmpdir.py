"""``TMPDIR``, as far as Python does not say what is wrong with it."""

from __future__ import annotations

import errno
import os
import tempfile

from partition_ops.errors import UsageError


def check_tmpdir() -> None:
    """Refuse a ``TMPDIR`` that cannot be used: Python would silently take another folder, such as ``/tmp``.

    Raises:
        UsageError: There is no such folder, nothing may be written there, or it is full.
    """
    named = os.environ.get("TMPDIR")
    if not named:
        return
    try:
        with tempfile.TemporaryFile(dir=named, buffering=0) as file:
            file.write(b"x")
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        raise UsageError(
            f"There is no space left in TMPDIR: {named}" if full else f"TMPDIR cannot be used: {named}",
            found=error.strerror,
            expected="a folder that may be written, with room for temporary files",
            remedy=f"{'Make room there' if full else 'Make that folder'}, or set TMPDIR to another one.",
        ) from error
