"""From storage to the disk of a machine that serves a partition: one partition's files, verified."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from partition_ops.artifacts import layout
from partition_ops.artifacts.manifest import read_manifest
from partition_ops.errors import InvalidInputError, StorageError, TransientStorageError, UsageError
from partition_ops.storage import Store
from partition_ops.storage.store import sha256_of
from partition_ops.system.progress import Advance, NoProgress, Progress

Entry = dict[str, Any]


def fetch_partitions(
    output: Store, parts: Sequence[int], folder: Path, *, progress: Progress | None = None
) -> dict[str, Any]:
    """Copy some partitions of a finished output to a local folder, as DGL's servers read them.

    The folder gets ``part<i>/`` with `layout.PARTITION_FILES` and, last, ``<graph>.json``: the partition
    config, whose paths are relative to it. Every file is compared with the size and the SHA-256 that the
    manifest lists. A partition appears whole or not at all; one that is there already and has the listed
    content is not fetched again. After an error the folder is what it was before, but for whole partitions.

    Args:
        output: Root of the output.
        parts: Which partitions.
        folder: Where to; it may hold other partitions of the same output.
        progress: Shows the bytes.

    Returns:
        The path of the partition config, the partitions, and the number of bytes that were fetched.

    Raises:
        InvalidInputError: The output is not finished, or lacks a file that its manifest lists.
        UsageError: There is no such partition, or the folder holds partitions of another output.
        StorageError: The folder cannot be written.
        TransientStorageError: A file is not what the manifest lists: perhaps the run is being done again.

    Peak memory: a few MiB. Disk: twice the partitions while they are fetched from S3.
    """
    manifest = read_manifest(output)
    graph_name = manifest["graph_name"]
    entries = {entry["key"]: entry for entry in manifest["artifacts"]}
    config_key = layout.partition_config(graph_name)
    config = _read_config(output, entries, config_key)
    _check_parts(parts, output.read_json(config_key)["num_parts"])
    target = folder / f"{graph_name}.json"
    _check_folder(target, config, output.uri)
    wanted = {part: _missing(folder, part, entries) for part in dict.fromkeys(parts)}
    total = sum(entry["size"] for files in wanted.values() for entry in files)
    with (
        _refused(folder),
        _scratch(folder) as scratch,
        (progress or NoProgress()).step(f"Fetching from {output.uri}", total, "bytes") as advance,
    ):
        for part, files in wanted.items():
            if files:
                _fetch_part(output, files, scratch / f"part{part}", advance)
                _replace(scratch / f"part{part}", folder / f"part{part}", scratch)
        (scratch / target.name).write_bytes(config)
        (scratch / target.name).replace(target)
    return {"partition_config": str(target), "parts": list(wanted), "bytes": total}


def _read_config(output: Store, entries: dict[str, Entry], key: str) -> bytes:
    _check_content(output, _listed(entries, key), output.local_copy(key))
    return output.read_bytes(key)


def _listed(entries: dict[str, Entry], key: str) -> Entry:
    if key not in entries:
        raise InvalidInputError(f"The manifest does not list {key}", remedy="Publish the run again.")
    return entries[key]


def _check_parts(parts: Sequence[int], num_parts: int) -> None:
    wrong = [part for part in parts if not 0 <= part < num_parts]
    if wrong or not parts:
        raise UsageError(
            "There is no such partition", found=wrong[0] if wrong else None, expected=f"0 to {num_parts - 1}"
        )


def _check_folder(target: Path, config: bytes, uri: str) -> None:
    """Partitions of two runs must not meet: DGL's servers would not notice."""
    others = [path for path in target.parent.glob("*.json") if path != target]
    if others or (target.exists() and target.read_bytes() != config):
        raise UsageError(
            f"{target.parent} holds partitions of another output",
            found=str(others[0] if others else target),
            expected=f"an empty folder, or partitions of {uri}",
            remedy="Fetch to another folder, or remove this one first.",
        )


def _missing(folder: Path, part: int, entries: dict[str, Entry]) -> list[Entry]:
    """The files of a partition, unless all are there with the content that the manifest lists."""
    files = [_listed(entries, layout.partition_file(part, name)) for name in layout.PARTITION_FILES]
    if all(_is_same(entry, folder / f"part{part}" / Path(entry["key"]).name) for entry in files):
        return []
    return files


def _is_same(entry: Entry, path: Path) -> bool:
    return path.is_file() and path.stat().st_size == entry["size"] and sha256_of(path) == entry["sha256"]


@contextmanager
def _refused(folder: Path) -> Iterator[None]:
    """Turn the errors of writing into ours."""
    try:
        yield
    except OSError as error:
        raise StorageError(
            f"{folder} cannot be written: {error.strerror or error}",
            remedy="Make room, or fetch to another folder: what is there already is not fetched again.",
        ) from error


@contextmanager
def _scratch(folder: Path) -> Iterator[Path]:
    """A folder beside the partitions, so that they appear by a rename."""
    folder.mkdir(parents=True, exist_ok=True)
    scratch = folder / f".partial-{secrets.token_hex(8)}"
    scratch.mkdir()
    try:
        yield scratch
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _fetch_part(output: Store, files: list[Entry], folder: Path, advance: Advance) -> None:
    folder.mkdir()
    for entry in files:
        path = folder / Path(entry["key"]).name
        shutil.copyfile(output.local_copy(entry["key"]), path)
        _check_content(output, entry, path)
        advance(entry["size"])


def _check_content(output: Store, entry: Entry, path: Path) -> None:
    if not _is_same(entry, path):
        raise TransientStorageError(
            f"{output.uri_of(entry['key'])} is not what the manifest lists",
            found=f"{path.stat().st_size} bytes with SHA-256 {sha256_of(path)}",
            expected=f"{entry['size']} bytes with SHA-256 {entry['sha256']}",
            remedy="If the run is being done again, wait for its end; else repeat it with 'partition-ops run"
            " … --check-artifacts', which makes again what is damaged.",
        )


def _replace(new: Path, folder: Path, scratch: Path) -> None:
    if folder.exists():
        folder.rename(scratch / f"old-{folder.name}")
    new.rename(folder)
