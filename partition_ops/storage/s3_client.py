"""The boto3 client, long transfers, local copies of objects, and background uploads."""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import boto3
import botocore.session
from botocore.config import Config
from botocore.loaders import Loader, create_loader

from partition_ops.errors import UsageError
from partition_ops.storage.fence import Fenced
from partition_ops.storage.s3_errors import explain_s3_errors
from partition_ops.storage.s3_known import KnownObjects
from partition_ops.storage.s3_settings import StorageSettings
from partition_ops.storage.store import StoredObject
from partition_ops.system.progress import Progress
from partition_ops.system.temporary_folders import new_folder

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

STYLES = ("auto", "path", "virtual")
FRESH_SECONDS = 2.0  # for which a check of the lock holds, unless a record or the manifest is written
FETCHED_AHEAD = 4  # downloads at a time
Listing = tuple[list[StoredObject], bool]  # objects with their full keys, and whether these are all
AT_A_TIME = 8  # uploads; as many files wait on the local disk at most


class FetchCache:
    """A private temporary folder with one file for each downloaded object.

    The first use makes the folder, with mode 0700, below ``TMPDIR``. `close` removes it, or else the exit of
    the interpreter; later commands remove the folders of killed processes. Several threads can use a cache.

    Attributes:
        digests: The SHA-256 of copies, in hex, as far as it is known.
    """

    def __init__(self) -> None:
        self.digests: dict[Path, str] = {}
        self._lock = threading.Lock()
        self._key_locks: dict[str, threading.Lock] = {}
        self._ahead: list[ThreadPoolExecutor] = []
        self._folder: Path | None = None
        self._remove: Callable[[], object] | None = None

    def folder(self) -> Path:
        with self._lock:
            if self._folder is None:
                self._folder = new_folder()
                self._remove = weakref.finalize(self, _remove_folder, self._folder, os.getpid())
            return self._folder

    def new_file(self) -> Path:
        """Return an unused path for a new file."""
        return self.folder() / f"new-{secrets.token_hex(8)}"

    def fetch(self, key: str, fetch: Callable[[Path], object]) -> Path:
        """Return the copy of an object; concurrent calls for the same object download it once.

        Args:
            key: Key of the object in the bucket.
            fetch: Downloads the object into a file, and may return its SHA-256, in hex. If it raises, nothing
                is kept.
        """
        path = self._path(key)
        with self._lock:
            lock = self._key_locks.setdefault(key, threading.Lock())
        with lock:
            if not path.exists():
                partial = self.new_file()
                self.digests.pop(path, None)  # of a copy that somebody has removed
                try:
                    digest = fetch(partial)
                    partial.replace(path)
                    if isinstance(digest, str) and digest:
                        self.digests[path] = digest
                finally:
                    partial.unlink(missing_ok=True)
        return path

    def fetch_ahead(self, keys: Iterable[str], fetch: Callable[[str], object]) -> None:
        """Fetch objects in the background, in their order; errors are left to the reader of the object.

        Args:
            keys: Keys of the objects.
            fetch: Fetches an object by its key.
        """
        pool = ThreadPoolExecutor(FETCHED_AHEAD, "fetch")
        with self._lock:
            self._ahead.append(pool)

        def fetched(key: str) -> None:
            with suppress(Exception):
                fetch(key)

        for key in keys:
            pool.submit(fetched, key)
        pool.shutdown(wait=False)

    def keep(self, key: str, written: Path) -> None:
        """Keep a file that is uploaded as the copy of its object, too."""
        self.forget(key)
        self._path(key).hardlink_to(written)

    def kept(self, key: str) -> Path | None:
        """Return the copy of an object, or None if there is no copy."""
        path = self._path(key) if self._folder is not None else None
        return path if path is not None and path.exists() else None

    def forget(self, key: str) -> None:
        """Remove the copy of an object that has been replaced; open files remain readable."""
        if self._folder is not None:
            path = self._path(key)
            self.digests.pop(path, None)
            path.unlink(missing_ok=True)

    def close(self) -> None:
        with self._lock:
            pools, self._ahead = self._ahead, []
        for pool in pools:
            pool.shutdown(cancel_futures=True)
        with self._lock:
            remove, self._remove, self._folder = self._remove, None, None
        if remove is not None:
            remove()

    def _path(self, key: str) -> Path:
        # a digest, because a key may be longer than a file name can be
        suffix = PurePosixPath(key).suffix[:16]
        return self.folder() / (hashlib.sha256(key.encode()).hexdigest() + suffix)


def _remove_folder(folder: Path, owner: int) -> None:
    if os.getpid() == owner:  # a forked child must not take the folder away from its parent
        shutil.rmtree(folder, ignore_errors=True)


class Uploads:
    """Uploads in the background, by the key of the object in the bucket. Several threads can use it.

    Objects that are written last, such as records, wait for other uploads. After one of them has failed, none
    is written any more. With `keep_local`, uploads in the background save a third of the wall time of a job
    on S3, see docs/decisions/tricks.md.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._room = threading.Semaphore(AT_A_TIME)
        self._pool: ThreadPoolExecutor | None = None
        self._running: dict[str, Future[None]] = {}
        self._last_pool: ThreadPoolExecutor | None = None
        self._last: list[Future[None]] = []
        self._failure: BaseException | None = None

    def start(self, key: str, upload: Callable[[], None]) -> Future[None]:
        """Start an upload, after an earlier one of the same object and when fewer than `AT_A_TIME` run."""
        self.settle(key)
        self._room.acquire()
        with self._lock:
            self._pool = self._pool or ThreadPoolExecutor(AT_A_TIME, "upload")
            future = self._running[key] = self._pool.submit(upload)
        future.add_done_callback(lambda done: self._done(key, done))
        return future

    def start_last(
        self, key: str, write: Callable[[], None], uploads: Sequence[Future[None]], before: Iterable[str]
    ) -> None:
        """Write an object when some uploads are done; `finish` waits for it.

        Args:
            key: Key of the object.
            write: Writes it.
            uploads: What `start` has returned.
            before: Keys of objects written last that come before this one.
        """
        self.check()
        with self._lock:
            waits = [*uploads, *(self._running[name] for name in before if name in self._running)]
            self._last_pool = self._last_pool or ThreadPoolExecutor(AT_A_TIME, "record")
            future = self._running[key] = self._last_pool.submit(self._write_last, write, waits)
            self._last.append(future)
        future.add_done_callback(lambda done: self._forget(key, done))

    def _write_last(self, write: Callable[[], None], waits: Sequence[Future[None]]) -> None:
        try:
            for one in waits:  # those were submitted earlier, so a thread is at work on the first of all
                one.result()
            self.check()
            write()
        except BaseException as error:
            self._failure = self._failure or error
            raise

    def is_done(self, key: str, *, wait: bool) -> bool:
        """Return whether the upload of an object is done; with ``wait``, wait for it."""
        with self._lock:
            future = self._running.get(key)
        if future is None:
            return self._failure is None
        return (wait or future.done()) and future.exception() is None

    def check(self) -> None:
        """Raise the error of the first object written last that failed."""
        if self._failure is not None:
            raise self._failure

    def finish(self) -> None:
        """Wait for the objects that are written last, and raise the first error."""
        with self._lock:
            waiting, self._last = self._last, []
        wait(waiting)
        try:
            self.check()
        finally:
            self._failure = None

    def settle(self, key: str) -> None:
        """Wait for the upload of an object, if there is one; its errors are raised where it was started."""
        with self._lock:
            future = self._running.get(key)
        if future is not None:
            future.exception()

    def settle_all(self, prefix: str) -> None:
        """Wait for the uploads of all objects whose keys begin with ``prefix``."""
        with self._lock:
            keys = [key for key in self._running if key.startswith(prefix)]
        for key in keys:
            self.settle(key)

    def close(self) -> None:
        """Wait for all uploads, and end the threads."""
        with self._lock:
            pools = [pool for pool in (self._last_pool, self._pool) if pool is not None]
            self._pool = self._last_pool = None
        for pool in pools:
            pool.shutdown()

    def _done(self, key: str, future: Future[None]) -> None:
        self._forget(key, future)
        self._room.release()

    def _forget(self, key: str, future: Future[None]) -> None:
        with self._lock:
            if self._running.get(key) is future:
                del self._running[key]


@dataclass
class Connection:
    """The connection that a store shares with its children."""

    bucket: str  # name of the bucket
    client: S3Client  # the client of boto3; `current_client` returns it
    progress: Progress  # shows the progress of large transfers
    settings: StorageSettings  # settings of the client
    cache: FetchCache = field(default_factory=FetchCache)  # downloaded copies on the local disk
    uploads: Uploads = field(default_factory=Uploads)  # uploads in the background
    # what is known of objects that nobody else changes
    known: KnownObjects = field(default_factory=KnownObjects)
    # listings that have begun, for the next snapshot, by prefix
    listed_ahead: dict[str, Future[Listing]] = field(default_factory=dict)
    bucket_seen: bool = False  # whether the bucket is known to exist
    # whether an ETag of the form of an MD5 was found not to be the MD5 of its object
    other_etags: bool = False
    fenced: Fenced = field(default_factory=Fenced)  # place of the fence of the stores
    client_is_given: bool = False  # whether the caller made the client, for example an Airflow hook
    # whether the server honours conditions of writes; None if that is not known yet
    conditional_puts: bool | None = None
    conditional_deletes: bool | None = None  # the same for removals
    _without_fence: threading.local = field(default_factory=threading.local)
    _process: int = field(default_factory=os.getpid)

    def __post_init__(self) -> None:
        self._prepare_client()

    def _prepare_client(self) -> None:
        self.client.meta.events.register("before-send.s3", self.check_fence)

    def current_client(self) -> S3Client:
        """Return the client, in a forked process without the open connections of its parent.

        Two processes that use one connection, such as two workers of a DataLoader, get each other's answers.
        """
        if os.getpid() != self._process:
            if self.client_is_given:
                self.client.close()
            else:
                self.client = make_client(self.settings)
                self._prepare_client()
            self._process = os.getpid()
        return self.client

    @property
    def plain(self) -> bool:
        """Whether requests go over plain HTTP, on which nothing detects other bytes but ourselves."""
        return self.client.meta.endpoint_url.startswith("http://")

    def check_fence(self, request: Any, **more: Any) -> None:
        """Check the fence before a signed request changes something; botocore calls this for each attempt.

        Parts of an upload change nothing until the upload is completed.
        """
        fence = self.fenced.fence
        if fence is None or request.method in ("GET", "HEAD") or hasattr(self._without_fence, "now"):
            return
        query = parse_qs(urlsplit(request.url).query, keep_blank_values=True)
        abandons = request.method == "DELETE" and "uploadId" in query
        if not abandons and not {"partNumber", "uploads"} & query.keys():
            conditional = "If-None-Match" in request.headers or "If-Match" in request.headers
            fence.check(seconds=0 if conditional else FRESH_SECONDS)

    @contextmanager
    def unfenced(self) -> Iterator[None]:
        """Let this thread change the lock itself."""
        self._without_fence.now = True
        try:
            yield
        finally:
            del self._without_fence.now


def make_client(settings: StorageSettings) -> S3Client:
    """Return a client that several threads can use; nothing is sent yet.

    Raises:
        UsageError: The address of the server, or the addressing style, is not valid.
        StorageError: The configuration of boto3 is broken, for example because a profile is missing.
    """
    with explain_s3_errors("s3"):
        # the default session of boto3 is not thread-safe
        session = boto3.session.Session(
            botocore_session=_botocore_session(),
            aws_access_key_id=settings.access_key,
            aws_secret_access_key=settings.secret_key,
            aws_session_token=settings.session_token,
            region_name=settings.region,
        )
        try:
            return session.client(
                "s3",
                endpoint_url=settings.endpoint_url,
                verify=settings.verify,
                config=_client_config(settings),
            )
        except ValueError as error:
            raise UsageError(
                "The address of the S3 server is not valid",
                expected="https://host or http://host:port, in AWS_ENDPOINT_URL or in the settings",
            ) from error


def load_models() -> None:
    """Read boto3's description of S3, for the clients of the processes that are forked later."""
    make_client(StorageSettings(access_key="none", secret_key="none", region="us-east-1"))


def _botocore_session() -> botocore.session.Session:
    """Return a new session that shares the description of S3 with all others: reading it takes 50 ms."""
    session = botocore.session.Session()
    session.register_component("data_loader", _loader())
    return session


@cache
def _loader() -> Loader:
    return create_loader(botocore.session.Session().get_config_variable("data_path"))


def _client_config(settings: StorageSettings) -> Config:
    if settings.addressing_style not in STYLES:
        raise UsageError(
            f"The addressing style cannot be {settings.addressing_style!r}", expected=", ".join(STYLES)
        )
    return Config(
        connect_timeout=settings.connect_timeout,
        read_timeout=settings.read_timeout,
        retries={"mode": "adaptive", "total_max_attempts": settings.max_attempts},
        # several transfers may run at a time
        max_pool_connections=max(32, 4 * settings.max_concurrency),
        tcp_keepalive=True,
        s3={
            "addressing_style": settings.addressing_style,
            # the signature covers Content-MD5 instead of a SHA-256 of the body
            "payload_signing_enabled": False,
        },  # type: ignore[arg-type]
        # some servers other than AWS reject the checksums that botocore adds by default
        request_checksum_calculation="when_required",
        response_checksum_validation="when_supported",
        user_agent_extra="partition-ops",
    )
