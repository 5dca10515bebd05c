"""Files of an output: listed, checked against the manifest, and mapped from the local disk or the cache."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from partition_ops.artifacts.book import Book, read_book
from partition_ops.artifacts.manifest import read_manifest
from partition_ops.artifacts.partition_book import PartitionBook
from partition_ops.artifacts.records import config_task, conversion_tasks, read_record
from partition_ops.errors import InvalidInputError, TransientStorageError, UsageError
from partition_ops.formats.columns import Array, StoredArray, in_group
from partition_ops.formats.format import Format, main_config, reading_format
from partition_ops.storage import Store
from partition_ops.storage.local_store import LocalStore
from partition_ops.storage.store import sha256_of
from partition_ops.train.cache import Cache, CacheEntry
from partition_ops.train.mapped_files import MappedFile

IdKind = Literal["new", "original"]
Ids = npt.NDArray[np.int64]
MISSING = -1  # in arrays by ID: there is no node or edge with that ID
FETCH_BYTES = 32 << 20
CACHE_LAYOUT = 1  # of the content of cache entries; raise it when that changes


class OutputFiles:
    """The stored columns of an output, in the first of its formats that is installed.

    Args:
        output: Root of the output.
        parts: The partitions to open; None for all.
        cache: Takes fetched files and arrays that are made from them.
        unpublished: Whether the output may lack a manifest.

    Attributes:
        book: The partition book.
        parts: The open partitions, ascending.
        num_hops: Number of hops of the halos.
        config_key: Key of the file that describes all partitions.

    Raises:
        InvalidInputError: The output is not finished.
        UsageError: A partition does not exist; or there are several, without a halo.
    """

    def __init__(
        self, output: Store, parts: Iterable[int] | None, cache: Cache, *, unpublished: bool = False
    ) -> None:
        self.output = output
        self.cache = cache
        self._entries = _converted(output) if unpublished else _published(output)
        book = read_book(output)
        self.parts = _checked_parts(parts, book.num_parts)
        self.num_hops = book.num_hops
        _check_together(output, self.num_hops, self.parts)
        self.config_key = main_config(book)
        self._format = _trainable_format(output, book)
        self.book = PartitionBook(output, graph_name=book.graph_name)
        self._arrays: dict[tuple[int, str], Mapping[str, StoredArray]] = {}
        self._held: list[CacheEntry] = []

    @property
    def is_local(self) -> bool:
        """Whether the output is on the local disk."""
        return isinstance(self.output, LocalStore)

    def close(self) -> None:
        """Let the cache remove the entries that this uses."""
        self.book.close()
        while self._held:
            self._held.pop().close()

    def size(self, key: str) -> int:
        """Return the size of an artifact in bytes, as the manifest lists it."""
        return int(self._entry(key)["size"])

    def sha256(self, key: str) -> str:
        """Return the SHA-256 of an artifact, as the manifest lists it."""
        return str(self._entry(key)["sha256"])

    def arrays(self, part: int, group: str) -> Mapping[str, StoredArray]:
        """Return the stored columns of a group by their names inside it; see `Format.arrays`.

        Raises:
            InvalidInputError: A file is damaged.
            TransientStorageError: A file does not have the size that the manifest lists.
        """
        if (part, group) not in self._arrays:
            if self.is_local:
                for key in self._keys([part]):
                    self._checked_local(key)
            found = self._format.arrays(self.output, part, group=group)
            self._arrays[part, group] = in_group(found, group)
        return self._arrays[part, group]

    def make_once(
        self,
        kind: str,
        parts: Iterable[int],
        options: tuple[object, ...],
        num_bytes: Callable[[], int],
        make: Callable[[Path], None],
    ) -> Path:
        """Return a folder of the cache, made if it is not there, and keep it until this is closed.

        Args:
            kind: What it holds.
            parts: The partitions that it is made from: it is used until their files change.
            options: Other values that its content depends on.
            num_bytes: Returns the disk space that making it takes, at most.
            make: Writes the files into the folder.
        """
        keys = [self.config_key, *self._keys(parts)]
        return self._hold(self._name(kind, keys, *options), num_bytes, make)

    def keep_local(self, key: str) -> Path:
        """Return a local file with the content of an artifact: itself, or a copy in the cache.

        Raises:
            TransientStorageError: It is not what the manifest lists.
            UsageError: The cache has no room for it.
        """
        if self.is_local:
            return self._checked_local(key)

        def fetch(folder: Path) -> None:
            self._fetch(key, folder / "content")

        return self._hold(self._name("file", [key]), lambda: self.size(key), fetch) / "content"

    @contextmanager
    def mapped(self, arrays: Mapping[str, StoredArray], scratch: Path) -> Iterator[dict[str, Array]]:
        """Map arrays while the context lasts.

        Args:
            arrays: The arrays.
            scratch: Folder that takes copies of their files meanwhile, if the output is on S3.
        """
        keys = sorted({array.key for array in arrays.values()})
        with ExitStack() as stack:
            files = {}
            for number, key in enumerate(keys):
                path = self._checked_local(key) if self.is_local else scratch / f"fetched-{number}"
                if not self.is_local:
                    stack.callback(path.unlink, missing_ok=True)
                    self._fetch(key, path)
                files[key] = MappedFile(path)
            yield {name: files[a.key].array(a.offset, a.dtype, a.shape) for name, a in arrays.items()}

    def scratch_bytes(self, pieces: Iterable[Mapping[str, StoredArray]]) -> int:
        """Return the disk space that `mapped` takes at most, for several calls one after the other."""
        if self.is_local:
            return 0
        keys = [{array.key for array in arrays.values()} for arrays in pieces]
        return max((sum(map(self.size, files)) for files in keys), default=0)

    def _keys(self, parts: Iterable[int]) -> list[str]:
        """Return the keys of all files of some partitions."""
        folders = tuple(f"{self._format.part_folder(part)}/" for part in parts)
        return sorted(key for key in self._entries if key.startswith(folders))

    def _entry(self, key: str) -> dict[str, Any]:
        if key not in self._entries:
            raise InvalidInputError(
                f"The manifest of {self.output.uri} does not list {key}", remedy="Publish the run again."
            )
        return self._entries[key]

    def _name(self, kind: str, keys: list[str], *options: object) -> str:
        """Return the name of a cache entry that depends on the content of some artifacts and on options."""
        text = repr((CACHE_LAYOUT, kind, [self.sha256(key) for key in keys], options))
        return f"{kind}-{hashlib.sha256(text.encode()).hexdigest()[:32]}"

    def _hold(self, name: str, num_bytes: Callable[[], int], make: Callable[[Path], None]) -> Path:
        self._held.append(self.cache.get(name, num_bytes, make))
        return self._held[-1].folder

    def _checked_local(self, key: str) -> Path:
        path = self.output.local_copy(key)
        if path.stat().st_size != self.size(key):
            raise self._changed(key, f"{path.stat().st_size} bytes")
        return path

    def _fetch(self, key: str, path: Path) -> None:
        with path.open("wb") as stream:
            for begin in range(0, self.size(key), FETCH_BYTES):
                end = min(begin + FETCH_BYTES, self.size(key))
                stream.write(self.output.read_range(key, begin, end))
        if (found := sha256_of(path)) != self.sha256(key):
            raise self._changed(key, f"SHA-256 {found}")

    def _changed(self, key: str, found: str) -> TransientStorageError:
        return TransientStorageError(
            f"{self.output.uri_of(key)} is not what the manifest lists",
            found=found,
            expected=f"{self.size(key)} bytes with SHA-256 {self.sha256(key)}",
            remedy="If another process is writing the run, wait until it has finished. Otherwise rebuild the"
            " file with 'partition-ops run … --check-artifacts'.",
        )


def _trainable_format(output: Store, book: Book) -> Format:
    form = reading_format(book)
    if form.has_graph:
        return form
    raise UsageError(
        f"The partitions of {output.uri} cannot be opened here: no format of the output has their graph",
        found="--formats " + ",".join(book.formats),
        expected="one that this package trains on, such as dgl",
        remedy="Run 'partition-ops run' into another OUTPUT with dgl among the --formats.",
    )


def _published(output: Store) -> dict[str, dict[str, Any]]:
    """Return size and SHA-256 of the artifacts that the manifest lists, by key."""
    return {entry["key"]: entry for entry in read_manifest(output)["artifacts"]}


def _converted(output: Store) -> dict[str, dict[str, Any]]:
    """Return size and SHA-256 of the artifacts that ``convert`` has recorded, by key."""
    config = read_record(output, config_task(output))
    num_parts = int(config["counters"]["num_parts"])
    records = [read_record(output, name) for name in conversion_tasks(output, num_parts)]
    return {entry["key"]: entry for record in records for entry in record["artifacts"]}


def _checked_parts(parts: Iterable[int] | None, known: int) -> tuple[int, ...]:
    wanted = range(known) if parts is None else sorted(set(parts))
    wrong = [part for part in wanted if not 0 <= part < known]
    if wrong or not len(wanted):
        raise UsageError(
            "There is no such partition", found=wrong[0] if wrong else None, expected=f"0 to {known - 1}"
        )
    return tuple(wanted)


def _check_together(output: Store, num_hops: int, parts: tuple[int, ...]) -> None:
    """Reject several partitions without edges between them."""
    if num_hops == 0 and len(parts) > 1:
        raise UsageError(
            f"The partitions of {output.uri} cannot be opened together: no edge leads from one to another",
            found="--num-hops 0",
            expected="1 hop or more, or one partition alone",
            remedy="Open one, such as parts=[0]; or run 'partition-ops run' into another OUTPUT without it.",
        )
