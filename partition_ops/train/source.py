"""The files of a finished output, on the local disk or fetched into the cache."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt

from partition_ops.artifacts import layout
from partition_ops.artifacts.partition_book import PartitionBook
from partition_ops.errors import TransientStorageError, UsageError
from partition_ops.formats.dgl.array_places import (
    ArrayPlace,
    GraphPlaces,
    graph_places,
    read_file_at,
    read_object_at,
    tensor_places,
)
from partition_ops.storage import Store
from partition_ops.storage.local_store import LocalStore
from partition_ops.storage.store import sha256_of
from partition_ops.train.cache import Cache, CacheEntry
from partition_ops.train.listing import converted, published

IdKind = Literal["new", "original"]
Ids = npt.NDArray[np.int64]
MISSING = -1  # in arrays by ID, where there is nothing with that ID
FETCH_BYTES = 32 << 20
LAYOUT = 1  # of what is made in the cache; another number for another layout


class OutputFiles:
    """A finished output as training reads it.

    Args:
        output: Root of the output.
        parts: The partitions to open; None for all.
        cache: Where fetched files go, and what is made from them.
        unpublished: Whether it may be without a manifest.

    Attributes:
        book: Its partition book.
        parts: The partitions that are open, ascending.
        num_hops: How far their halos go.
        formats: The sparse formats of their graphs.

    Raises:
        InvalidInputError: The output is not finished.
        UsageError: There is no such partition; or there are several, without a halo.
    """

    def __init__(
        self, output: Store, parts: Iterable[int] | None, cache: Cache, *, unpublished: bool = False
    ) -> None:
        self.output = output
        self.cache = cache
        self._listing = converted(output) if unpublished else published(output)
        self.book = PartitionBook(output, graph_name=self._listing.graph_name)
        self.parts = self._checked_parts(parts)
        self.num_hops = int(self._listing.options.get("num_hops", 1))
        self.formats = tuple(self._listing.options.get("graph_formats", ["coo"]))
        _check_together(output, self.num_hops, self.parts)
        self._held: list[CacheEntry] = []

    @property
    def is_local(self) -> bool:
        return isinstance(self.output, LocalStore)

    def close(self) -> None:
        """Let the cache drop what was used of it."""
        self.book.close()
        while self._held:
            self._held.pop().close()

    def size(self, key: str) -> int:
        """Bytes of an artifact, as the manifest lists it."""
        return int(self._listing.entry(key)["size"])

    def sha256(self, key: str) -> str:
        """SHA-256 of an artifact, as the manifest lists it."""
        return str(self._listing.entry(key)["sha256"])

    def name(self, kind: str, keys: Sequence[str], *more: object) -> str:
        """Name of a cache entry that depends on some artifacts' content and on nothing else but ``more``."""
        digests = [self._listing.entry(key)["sha256"] for key in keys]
        text = repr((LAYOUT, kind, digests, more))
        return f"{kind}-{hashlib.sha256(text.encode()).hexdigest()[:32]}"

    def hold(self, entry: CacheEntry) -> Path:
        """The folder of a cache entry, kept until this is closed."""
        self._held.append(entry)
        return entry.folder

    def kept(self, key: str) -> Path:
        """A local file with the content of an artifact, to be mapped: the file itself, or a fetched one.

        Raises:
            TransientStorageError: It is not what the manifest lists.
            UsageError: The cache has no room for it.
        """
        if self.is_local:
            return self._checked_local(key)
        entry = self.cache.get(
            self.name("file", [key]), self.size(key), lambda folder: self._fetch(key, folder / "content")
        )
        return self.hold(entry) / "content"

    @contextmanager
    def passing(self, key: str, folder: Path) -> Iterator[Path]:
        """The same for as long as the context lasts; a fetched file is in ``folder`` meanwhile."""
        if self.is_local:
            yield self._checked_local(key)
            return
        scratch = folder / "fetched"
        try:
            self._fetch(key, scratch)
            yield scratch
        finally:
            scratch.unlink(missing_ok=True)

    def scratch_bytes(self, keys: Iterable[str]) -> int:
        """What `passing` takes on the cache's disk, at most, if these are read one after the other."""
        return 0 if self.is_local else max((self.size(key) for key in keys), default=0)

    def graph_places(self, key: str, path: Path) -> GraphPlaces:
        """Where the arrays of a partition's graph file are, which is at a local path."""
        return graph_places(read_file_at(path), self.output.uri_of(key))

    def tensors(self, part: int, name: str) -> dict[str, ArrayPlace]:
        """Where the arrays of a partition's tensor file are; only the headers are fetched."""
        key = layout.partition_file(part, name)
        read = read_object_at(self.output, key, self.size(key))
        if self.is_local:
            read = read_file_at(self._checked_local(key))
        return tensor_places(read, self.output.uri_of(key))

    def _checked_parts(self, parts: Iterable[int] | None) -> tuple[int, ...]:
        known = self.book.num_partitions()
        wanted = range(known) if parts is None else sorted(set(parts))
        wrong = [part for part in wanted if not 0 <= part < known]
        if wrong or not len(wanted):
            raise UsageError(
                "There is no such partition", found=wrong[0] if wrong else None, expected=f"0 to {known - 1}"
            )
        return tuple(wanted)

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
        if (found := sha256_of(path)) != self._listing.entry(key)["sha256"]:
            raise self._changed(key, f"SHA-256 {found}")

    def _changed(self, key: str, found: str) -> TransientStorageError:
        entry = self._listing.entry(key)
        return TransientStorageError(
            f"{self.output.uri_of(key)} is not what the manifest lists",
            found=found,
            expected=f"{entry['size']} bytes with SHA-256 {entry['sha256']}",
            remedy="If the run is being done again, wait for its end; else repeat it with 'partition-ops run"
            " … --check-artifacts', which makes again what is damaged.",
        )


def _check_together(output: Store, num_hops: int, parts: tuple[int, ...]) -> None:
    """Refuse to open partitions together that have no edges between them."""
    if num_hops == 0 and len(parts) > 1:
        raise UsageError(
            f"The partitions of {output.uri} cannot be opened together: no edge leads from one to another",
            found="--num-hops 0",
            expected="1 hop or more, or one partition alone",
            remedy="Open one, such as parts=[0]; or run 'partition-ops run' into another OUTPUT without it.",
        )
