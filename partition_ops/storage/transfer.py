"""A local folder into a store, several files at a time."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from partition_ops.errors import InvalidInputError
from partition_ops.storage.base import Artifact, Store
from partition_ops.system.progress import NoProgress, Progress

THREADS = 8


def upload_folder(
    folder: Path, store: Store, *, progress: Progress | None = None, last: str | None = None
) -> list[Artifact]:
    """Copy every file below a local folder into a store; keys are the paths below the folder.

    Args:
        folder: The folder.
        store: Where to.
        progress: Shows how many bytes are there.
        last: Key that is copied after all others, for readers that start from it.

    Returns:
        What was written, in the order of the keys.

    Raises:
        InvalidInputError: There is no such folder, or no file in it.
    """
    keys = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    if not keys:
        raise InvalidInputError(f"There is nothing to upload in {folder}", remedy="Check the path.")
    total = sum((folder / key).stat().st_size for key in keys)
    with (progress or NoProgress()).step(f"Uploading to {store.uri}", total, "bytes") as advance:

        def upload(key: str) -> Artifact:
            with store.create(key) as new:
                shutil.copyfile(folder / key, new.path)
            artifact = new.published()
            advance(artifact.size)
            return artifact

        with ThreadPoolExecutor(THREADS) as pool:
            written = list(pool.map(upload, [key for key in keys if key != last]))
        if last in keys:
            written.append(upload(last))
    return sorted(written, key=lambda artifact: artifact.key)
