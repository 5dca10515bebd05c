"""Copies of local folders in a store."""

from __future__ import annotations

from pathlib import Path

from partition_ops.storage import Store
from partition_ops.system.parallel import map_in_threads


def upload_folder(folder: Path, store: Store, *, last: str | None = None) -> int:
    """Copy every file below a folder into a store, and return their number; readers start from the last."""
    paths = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}

    def upload(key: str) -> None:
        store.write_bytes(key, paths[key].read_bytes())

    for _ in map_in_threads(upload, [key for key in paths if key != last], workers=8):
        pass
    if last is not None:
        upload(last)
    return len(paths)
