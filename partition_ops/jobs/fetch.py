"""Copy partitions from storage to the disk of a machine that serves them, and verify their files."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from partition_ops.artifacts import layout
from partition_ops.artifacts.book import Book, check_parts, read_book
from partition_ops.artifacts.manifest import not_as_listed, read_manifest
from partition_ops.artifacts.marker import FETCHED, read_marker, write_marker
from partition_ops.artifacts.write_access import check_root, foreign_content
from partition_ops.errors import InvalidInputError, StorageError, UsageError
from partition_ops.formats.format import Format, get_formats
from partition_ops.storage import Store
from partition_ops.storage.durability import copy_durably, make_folder, sync_folder
from partition_ops.storage.local_store import LocalStore
from partition_ops.storage.store import sha256_of
from partition_ops.system.progress import Advance, NoProgress, Progress

Entry = dict[str, Any]


def fetch_partitions(
    output: Store,
    parts: Sequence[int],
    folder: Path,
    *,
    formats: Sequence[str] = (),
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Copy some partitions of a finished output to a local folder, in all or some of its output formats.

    For the format ``dgl`` the folder gets ``part<i>/`` and, last, ``<graph>.json``, as DGL's servers read
    them. Any other format keeps its place in the output: ``formats/<name>/part<i>/``, its files of the whole
    graph and its config files; if it has no config file, ``convert/book.json`` is copied too. The cached rows
    of the partitions keep their place, ``cache/part<i>/``. Every file is compared with the size and the
    SHA-256 that the manifest lists. The folder of a partition appears whole or
    not at all; one that is there already and has the listed content is not fetched again. After an error,
    only whole folders have been added.

    Args:
        output: Root of the output.
        parts: Which partitions.
        folder: Where to; it may hold other partitions of the same output.
        formats: Names of the formats to copy; empty for all.
        progress: Shows the bytes.

    Returns:
        ``partition_config``, the path of the file that the first of the formats is loaded by; the formats,
        the partitions, and the number of bytes that were fetched.

    Raises:
        InvalidInputError: The output is not finished.
        UsageError: There is no such partition or format, or the folder has other content.
        StorageError: The folder cannot be written.
        TransientStorageError: A file is not what the manifest lists: it is missing or damaged, or another
            process is writing the run.

    Peak memory: a few MiB. Disk: twice the partitions while they are fetched from S3.
    """
    entries = {entry["key"]: entry for entry in read_manifest(output)["artifacts"]}
    if layout.BOOK in entries:  # not in outputs of 0.1.0; a damaged book would be told as something else
        _check_listed(output, entries[layout.BOOK])
    book = read_book(output)
    check_parts(parts, book.num_parts)
    chosen = _chosen(book, formats)
    configs = {}
    for form in chosen:  # the files that describe all partitions
        for key in [form.key(name) for name in form.config_files(book)] or [layout.BOOK]:
            if key not in entries:
                raise InvalidInputError(f"The manifest does not list {key}", remedy="Publish the run again.")
            _check_listed(output, entries[key])
            configs[_place(key)] = output.read_bytes(key)
    _check_folder(folder, configs, output.uri)
    folders = [
        form.part_folder(part) for part in dict.fromkeys(parts) for form in chosen if form.of_partitions
    ]
    caches = {layout.cache_folder(part) for part in parts}
    folders += [key for key in sorted(caches) if any(name.startswith(f"{key}/") for name in entries)]
    wanted = {_place(key): _missing(folder, key, entries) for key in folders}
    whole = [entry for entry in _of_all_parts(entries, book, chosen) if _place(entry["key"]) not in configs]
    whole = [entry for entry in whole if not _is_same(entry, folder / _place(entry["key"]))]
    total = sum(entry["size"] for files in wanted.values() for entry in files.values())
    total += sum(entry["size"] for entry in whole)
    own = _own_files(folder, entries, configs, [place for place, files in wanted.items() if files])
    new = {f"{place}/{name}" for place, files in wanted.items() for name in files}
    new |= {_place(entry["key"]) for entry in whole} | set(configs)
    foreign = [place for place in new - own if (folder / place).exists() and place not in configs]
    if foreign:
        raise foreign_content(str(folder), foreign)
    with _refused(folder):
        make_folder(folder)
        write_marker(LocalStore(folder), FETCHED, files=sorted(own | new))
    with (
        _refused(folder),
        _scratch(folder) as scratch,
        (progress or NoProgress()).step(f"Fetching from {output.uri}", total, "bytes") as advance,
    ):
        for place, files in wanted.items():
            if files:
                _fetch_part(output, files, scratch / place, advance)
                _replace(scratch / place, folder / place, scratch)
        for entry in whole:
            _fetch_part(output, {"whole": entry}, scratch, advance)
            _replace_file(scratch / "whole", folder / _place(entry["key"]))
        for place, data in configs.items():
            with (scratch / "config").open("wb") as stream:
                stream.write(data)
                stream.flush()
                os.fsync(stream.fileno())
            _replace_file(scratch / "config", folder / place)
    return {
        "partition_config": str(folder / next(iter(configs))),
        "formats": [form.name for form in chosen],
        "parts": list(dict.fromkeys(parts)),
        "bytes": total,
    }


def _chosen(book: Book, names: Sequence[str]) -> list[Format]:
    unknown = [name for name in names if name not in book.formats]
    if unknown:
        raise UsageError(
            f"The output does not have the format {unknown[0]!r}",
            expected="one or more of " + ", ".join(book.formats),
        )
    return get_formats(names or book.formats)


def _of_all_parts(entries: dict[str, Entry], book: Book, chosen: Sequence[Format]) -> Iterator[Entry]:
    """Yield the files of some formats that do not belong to one partition."""
    for form in chosen:
        folders = tuple(f"{form.part_folder(part)}/" for part in range(book.num_parts))
        for key, entry in entries.items():
            if form.folder and key.startswith(f"{form.folder}/") and not key.startswith(folders):
                yield entry


def _place(key: str) -> str:
    """Return the path of an artifact in the local folder; DGL's files are at the top of it."""
    return key.removeprefix(f"{layout.PARTITIONS}/")


def _check_folder(folder: Path, configs: dict[str, bytes], uri: str) -> None:
    """Reject a folder with partitions of another run: readers would not notice."""
    strays = [path for path in folder.glob("*.json") if path.name not in {*configs, layout.MARKER}]
    others = [
        folder / place
        for place, data in configs.items()
        if (folder / place).exists() and (folder / place).read_bytes() != data
    ]
    if strays and any("/" not in place for place in configs):
        others += strays
    if others:
        raise UsageError(
            f"{folder} holds partitions of another output",
            found=str(others[0]),
            expected=f"an empty folder, or partitions of {uri}",
            remedy="Fetch to another folder, or remove this one first.",
        )


def _own_files(
    folder: Path, entries: dict[str, Entry], configs: dict[str, bytes], replaced: Sequence[str]
) -> set[str]:
    """Return the files of a folder that an earlier call has written, by their paths in it.

    Folders that earlier versions filled have no marker; the same config file shows that they are ours.

    Raises:
        UsageError: The folder, or one in it that is to be replaced, has other content.
    """
    root = LocalStore(folder)
    old = any((folder / place).exists() for place in configs)
    check_root("fetch", root, own=old)
    marker = read_marker(root)
    own = set(marker.get("files", ())) if marker else {_place(key) for key in entries} if old else set()
    there = [entry.key for place in replaced for entry in root.list(f"{place}/")]
    if foreign := [key for key in there if key not in own]:
        raise foreign_content(str(folder), foreign)
    return own


def _missing(folder: Path, key: str, entries: dict[str, Entry]) -> dict[str, Entry]:
    """Return the files of a folder by path inside it; none if all are there as the manifest lists them."""
    prefix = f"{key}/"
    files = {
        name.removeprefix(prefix): entry
        for name, entry in entries.items()
        if name.startswith(prefix) and not layout.is_partition_stats(name)
    }
    if not files:
        raise InvalidInputError(f"The manifest lists nothing below {key}", remedy="Publish the run again.")
    if all(_is_same(entry, folder / _place(key) / name) for name, entry in files.items()):
        return {}
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
            remedy="Free disk space, or choose another folder. Partitions that have been fetched stay there.",
        ) from error


@contextmanager
def _scratch(folder: Path) -> Iterator[Path]:
    """Create a folder beside the partitions, so that they appear by a rename."""
    scratch = folder / f".partial-{secrets.token_hex(8)}"
    scratch.mkdir()
    try:
        yield scratch
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _fetch_part(output: Store, files: dict[str, Entry], folder: Path, advance: Advance) -> None:
    for name, entry in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        copy_durably(_copy(output, entry), path)
        _check_content(output, entry, path)
        advance(entry["size"])


def _check_listed(output: Store, entry: Entry) -> None:
    """Check that an artifact is what the manifest lists."""
    _check_content(output, entry, _copy(output, entry))


def _copy(output: Store, entry: Entry) -> Path:
    """Return a local copy of an artifact, whatever its content."""
    try:
        if output.is_local(entry["key"]):  # the caller compares the content
            return output.local_copy(entry["key"])
        return output.checked_copy(entry["key"], entry["sha256"]) or output.local_copy(entry["key"])
    except InvalidInputError as error:
        if output.exists(entry["key"]):
            raise
        raise not_as_listed(output, entry, "no such file") from error


def _check_content(output: Store, entry: Entry, path: Path) -> None:
    if not _is_same(entry, path):
        raise not_as_listed(output, entry, f"{path.stat().st_size} bytes with SHA-256 {sha256_of(path)}")


def _replace_file(new: Path, path: Path) -> None:
    make_folder(path.parent)
    new.replace(path)
    sync_folder(path.parent)


def _replace(new: Path, folder: Path, scratch: Path) -> None:
    make_folder(folder.parent)
    if folder.exists():
        folder.rename(scratch / f"old-{secrets.token_hex(8)}")
    for path in (new, *(path for path in new.rglob("*") if path.is_dir())):
        sync_folder(path)
    new.rename(folder)
    sync_folder(folder.parent)
