"""Files of an output: listed, checked against the manifest, and mapped from the local disk or the cache.

A limit can be set for the pages of mapped files that stay resident.
"""

from __future__ import annotations

import hashlib
import mmap
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from partition_ops.artifacts.book import Book, check_parts, read_book
from partition_ops.artifacts.manifest import not_as_listed, read_manifest
from partition_ops.artifacts.partition_book import PartitionBook
from partition_ops.artifacts.records import Record, config_task, conversion_tasks, read_record
from partition_ops.errors import InvalidInputError, UsageError
from partition_ops.formats.columns import Array, StoredArray, in_group
from partition_ops.formats.format import Format, main_config, reading_format
from partition_ops.storage import Store
from partition_ops.storage.local_store import LocalStore
from partition_ops.storage.store import sha256_of
from partition_ops.train.cache import Cache, CacheEntry

IdKind = Literal["new", "original"]
Ids = npt.NDArray[np.int64]
MISSING = -1  # in arrays by ID: there is no node or edge with that ID
FETCH_BYTES = 32 << 20
CACHE_LAYOUT = 1  # of the content of cache entries; raise it when that changes
NPY_HEADER = 128  # bytes before the array of a file that `new_npy` or `numpy.save` writes
STATM = Path("/proc/self/statm")
FAULT_AROUND = 64 << 10  # bytes that Linux maps around a page that is touched, if they are in the page cache


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
        records = _conversion_records(output) if unpublished else [read_manifest(output)]
        listed = (entry for record in records for entry in record["artifacts"])
        self._entries: dict[str, dict[str, Any]] = {entry["key"]: entry for entry in listed}
        book = read_book(output)
        self.num_hops = book.num_hops
        self.parts = _checked_parts(output, parts, book)
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

        name = self._name("file", [key])
        made = self._hold(name, lambda: self.size(key), lambda folder: self._fetch(key, folder / "content"))
        return made / "content"

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
            raise not_as_listed(self.output, self._entry(key), f"{path.stat().st_size} bytes")
        return path

    def _fetch(self, key: str, path: Path) -> None:
        found = ""
        for compared in (True, False):  # bytes that arrived damaged over plain HTTP are read again
            with path.open("wb") as stream:
                for begin in range(0, self.size(key), FETCH_BYTES):
                    end = min(begin + FETCH_BYTES, self.size(key))
                    stream.write(self.output.read_range(key, begin, end, compared=compared))
            found = sha256_of(path)
            if found == self.sha256(key):
                return
        raise not_as_listed(self.output, self._entry(key), f"SHA-256 {found}")


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


def _conversion_records(output: Store) -> list[Record]:
    config = read_record(output, config_task(output))
    names = conversion_tasks(output, int(config["counters"]["num_parts"]))
    return [read_record(output, name) for name in names]


def _checked_parts(output: Store, parts: Iterable[int] | None, book: Book) -> tuple[int, ...]:
    """Return the partitions to open; several without edges between them are rejected."""
    wanted = range(book.num_parts) if parts is None else sorted(set(parts))
    check_parts(wanted, book.num_parts)
    if book.num_hops == 0 and len(wanted) > 1:
        raise UsageError(
            f"The partitions of {output.uri} cannot be opened together: no edge leads from one to another",
            found="--num-hops 0",
            expected="1 hop or more, or one partition alone",
            remedy="Open one, such as parts=[0]; or run 'partition-ops run' into another OUTPUT without it.",
        )
    return tuple(wanted)


class MappedFile:
    """A file mapped for reading; the mapping lives as long as any array that was made from it.

    The kernel reads pages when they are touched, without reading ahead, because accesses are scattered.

    Args:
        path: The file; an empty one has only empty arrays.

    Peak memory: the pages that are touched, until `release`.
    """

    def __init__(self, path: Path) -> None:
        with path.open("rb") as stream:
            size = stream.seek(0, 2)
            self._map = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) if size else None
        if self._map is not None:
            self._map.madvise(mmap.MADV_RANDOM)

    def array(self, offset: int, dtype: npt.DTypeLike, shape: tuple[int, ...]) -> npt.NDArray[Any]:
        """Return an array inside the file, not copied and not writable; it may be unaligned."""
        count = int(np.prod(shape, dtype=np.int64))
        if count == 0 or self._map is None:
            return np.empty(shape, dtype)
        flat: npt.NDArray[Any] = np.frombuffer(self._map, np.uint8, count * np.dtype(dtype).itemsize, offset)
        return flat.view(dtype).reshape(shape)

    def release(self) -> None:
        """Unmap the pages from this process; the next access maps them again, mostly from the page cache."""
        if self._map is not None:
            self._map.madvise(mmap.MADV_DONTNEED)


def map_npy(path: Path, resident: ResidentLimit) -> npt.NDArray[Any]:
    """Return the array of a ``.npy`` file, mapped; `resident` limits its resident pages."""
    with path.open("rb") as stream:
        version = np.lib.format.read_magic(stream)
        if version != (1, 0):
            raise ValueError(f"{path} has version {version} of the format, not (1, 0)")
        shape, _, dtype = np.lib.format.read_array_header_1_0(stream)
        offset = stream.tell()
    return resident.watch(MappedFile(path)).array(offset, dtype, shape)


class ResidentLimit:
    """Keeps the mapped pages of a process below a limit, by releasing all of them when there are more.

    The kernel reclaims them by itself when memory is short; until then they count as resident memory of the
    process, which some schedulers limit. Released pages stay in the page cache. Usable from several threads
    and, after a fork, in every process.

    Args:
        limit: Bytes of mapped files that may be resident, in addition to the program's own files. None leaves
            it to the kernel, which is faster, because a released page must be mapped again.
    """

    def __init__(self, limit: int | None = None) -> None:
        self.limit = limit
        self._files: list[MappedFile] = []
        self._lock = threading.Lock()
        self._base = _mapped_bytes()

    def watch(self, file: MappedFile) -> MappedFile:
        """Add a file to those whose pages are released, and return it."""
        with self._lock:
            self._files.append(file)
        return file

    def scattered(self, size: int) -> int:
        """Return how many scattered pieces of ``size`` bytes may be read between two checks, at least one."""
        if self.limit is None:
            return sys.maxsize
        return max(self.limit // (2 * (FAULT_AROUND + size)), 1)

    def check(self) -> None:
        """Release all pages if there are too many. Takes some microseconds otherwise."""
        if self.limit is None or _mapped_bytes() <= self._base + self.limit:
            return
        with self._lock:
            for file in self._files:
                file.release()
            self._base = _mapped_bytes()


def _mapped_bytes() -> int:
    """Return the resident file-backed bytes of this process; 0 if the system does not report them."""
    try:
        return int(STATM.read_bytes().split()[2]) * mmap.PAGESIZE
    except OSError:  # not Linux
        return 0
