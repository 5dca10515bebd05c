"""What this machine, or the cgroup around this process, has."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import psutil

from partition_ops.jobs.estimate.result import Room
from partition_ops.storage import Store
from partition_ops.storage.local_store import LocalStore
from partition_ops.system.memory import memory_limit
from partition_ops.system.parallel import cores


def room_here(destination: Store | None) -> Room:
    """Memory, processors and disks of this machine.

    Args:
        destination: Root of the output, which need not be there yet; None where it is not known.
    """
    temporary = Path(tempfile.gettempdir())
    limit = memory_limit()
    output = _existing(Path(destination.place)) if isinstance(destination, LocalStore) else None
    return Room(
        memory=limit,
        available=min(limit, int(psutil.virtual_memory().available)),
        output=None if output is None else shutil.disk_usage(output).free,
        temporary=shutil.disk_usage(temporary).free,
        same_disk=output is not None and output.stat().st_dev == temporary.stat().st_dev,
        cores=cores(),
    )


def _existing(path: Path) -> Path:
    """The nearest folder that is there."""
    return next(folder for folder in (path, *path.absolute().parents) if folder.exists())
