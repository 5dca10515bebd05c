"""Opening the store of a URI, and the allow-list of roots."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path
from urllib.parse import unquote, urlsplit

from partition_ops.errors import InvalidInputError, PartitionOpsError, UsageError
from partition_ops.storage.local_store import LocalStore
from partition_ops.storage.s3_settings import StorageSettings
from partition_ops.storage.store import Store, check_key
from partition_ops.system.progress import Progress

VARIABLE = "PARTITION_OPS_ALLOWED_ROOTS"
EXPECTED = "a local path or s3://bucket/prefix"
MISSPELLED = re.compile(r"(s3[an]?|file|https?|gs|hdfs|abfss?):", re.IGNORECASE)


def open_store(
    uri: str, settings: StorageSettings | None = None, *, progress: Progress | None = None
) -> Store:
    """Return a store for a URI: a local path, ``file://…`` or ``s3://bucket/prefix``.

    Nothing is read or written yet.

    Args:
        uri: The root of the store.
        settings: How to reach S3; by default boto3 finds credentials and the endpoint itself.
        progress: Shows the progress of large transfers; by default nothing is shown.

    Raises:
        UsageError: The scheme is not supported, the URI is malformed, or the root is outside of those that
            the environment variable ``PARTITION_OPS_ALLOWED_ROOTS`` lists.
    """
    check_spelling(uri)
    store = _open(uri, settings, progress)
    check_allowed(store)
    return store


class ListingAhead:
    """Opens stores as `open_store` does; some can be listed before they are used.

    Args:
        settings: How to reach S3; by default boto3 finds credentials and the endpoint itself.
    """

    def __init__(self, settings: StorageSettings | None = None) -> None:
        self._settings = settings
        self._listed: dict[str, Store] = {}

    def list(self, uri: str) -> None:
        """Begin to list a root on S3; without effect if it cannot be opened, which opening it will say."""
        if uri.startswith("s3://"):
            with suppress(PartitionOpsError):
                store = open_store(uri, self._settings)
                store.list_ahead()
                self._listed[uri] = store

    def __call__(self, uri: str) -> Store:
        """Return a store for a URI."""
        return self._listed.pop(uri, None) or open_store(uri, self._settings)

    def close(self) -> None:
        """Close the stores that were listed and not used."""
        while self._listed:
            self._listed.popitem()[1].close()


def check_spelling(uri: str) -> None:
    """Check that a URI has slashes after its scheme: ``s3:bucket/prefix`` would be a local path.

    Raises:
        UsageError: The slashes are missing.
    """
    scheme = MISSPELLED.match(uri)
    if scheme and "://" not in uri:
        raise UsageError(
            "A URI lacks the two slashes after its scheme",
            found=repr(uri),
            expected=EXPECTED,
            remedy=f"If it is a local path, write ./{scheme[0]}…",
        )


def split_uri(uri: str) -> tuple[str, str]:
    """Return the folder of a file, as a path or URI, and the name of the file."""
    folder, _, name = uri.rpartition("/")
    return folder or ("/" if uri.startswith("/") else "."), name


def _open(uri: str, settings: StorageSettings | None, progress: Progress | None) -> Store:
    scheme, found, rest = uri.partition("://")
    if not found:
        if not uri:
            raise UsageError("A path is empty", expected=EXPECTED)
        return LocalStore(Path(uri))
    if scheme == "file":
        if not rest.startswith("/"):  # the part after the slashes would be a host
            raise UsageError("A URI has no absolute path", found=repr(uri), expected="file:///path")
        return LocalStore(Path(unquote(urlsplit(uri).path)))
    if scheme == "s3":
        return _open_s3(uri, rest, settings, progress)
    raise UsageError(f"A URI has a scheme that is not supported: {scheme!r}", expected=EXPECTED)


def _open_s3(uri: str, rest: str, settings: StorageSettings | None, progress: Progress | None) -> Store:
    from partition_ops.storage.s3_store import S3Store  # boto3 takes a while to import

    bucket, _, prefix = rest.partition("/")
    if not bucket:
        raise UsageError("A URI has no bucket", found=repr(uri), expected="s3://bucket/prefix")
    try:
        return S3Store(bucket, prefix, settings=settings, progress=progress)
    except InvalidInputError as error:
        raise UsageError("A URI is not normalised", found=repr(uri), expected=EXPECTED) from error


def check_allowed(store: Store) -> None:
    """Check that a root is inside one of those that ``PARTITION_OPS_ALLOWED_ROOTS`` lists.

    The environment variable holds local paths, ``file://…`` and ``s3://bucket/prefix``, separated by white
    space (write a space in a path as ``%20`` in a ``file://`` URI). If it is not set, every root is allowed;
    if it is empty, none is. Symbolic links in local paths are resolved before the comparison, which is by
    whole names: ``s3://graphs`` does not allow ``s3://graphs-of-others``.

    Raises:
        UsageError: The root is outside of them, or an entry of the list is malformed.
    """
    listed = os.environ.get(VARIABLE)
    if listed is None:
        return
    allowed = [_canonical_uri(root) for root in listed.split()]
    try:
        uri = store.canonical_uri
    except (OSError, RuntimeError, ValueError) as error:  # a cycle of symbolic links, or not a path at all
        raise UsageError(f"{store.uri!r} cannot be resolved: {error}") from error
    if not any(f"{uri}/".startswith(f"{root.rstrip('/')}/") for root in allowed):
        raise UsageError(
            "A URI is outside of the allowed roots",
            found=repr(store.uri),
            expected=listed.split() or "nothing: the list is empty",
            remedy=f"Use one of them, or extend {VARIABLE}.",
        )


def _canonical_uri(root: str) -> str:
    """Return an entry of the list in the form of `Store.canonical_uri`."""
    scheme, found, rest = root.partition("://")
    if not found and root.startswith("/"):
        return str(Path(root).resolve())
    if scheme == "file" and rest.startswith("/"):
        return str(Path(unquote(urlsplit(root).path)).resolve())
    with suppress(InvalidInputError):
        if scheme == "s3":
            return f"s3://{check_key(rest.rstrip('/'))}"
    raise UsageError(
        f"{VARIABLE} has a malformed entry",
        found=repr(root),
        expected="an absolute path, file:///path or s3://bucket/prefix",
    )


def split_file_uri(uri: str, option: str) -> tuple[str, str]:
    """Return the root and the key of one file.

    Raises:
        UsageError: The URI names a folder, or is misspelt.
    """
    check_spelling(uri)
    folder, name = split_uri(uri)
    if not name or folder.endswith(":/"):  # s3://bucket
        raise UsageError(
            f"{option} names no file", found=repr(uri), expected="a local path or s3://bucket/key"
        )
    return folder, name


def local_folder(text: str, option: str) -> Path:
    """Return the path of a folder that can only be local.

    Raises:
        UsageError: The text is empty or a URI.
    """
    with suppress(UsageError):
        check_spelling(text)
        if text and "://" not in text:
            return Path(text)
    raise UsageError(f"{option} is no local folder", found=repr(text))
