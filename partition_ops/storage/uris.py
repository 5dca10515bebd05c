"""From a URI to a store."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path
from urllib.parse import unquote, urlsplit

from partition_ops.errors import InvalidInputError, UsageError
from partition_ops.storage.local_store import LocalStore
from partition_ops.storage.s3_settings import StorageSettings
from partition_ops.storage.store import Store, check_key
from partition_ops.system.progress import Progress

VARIABLE = "PARTITION_OPS_ALLOWED_ROOTS"
EXPECTED = "a local path or s3://bucket/prefix"
MISSPELT = re.compile(r"(s3[an]?|file|https?|gs|hdfs|abfss?):", re.IGNORECASE)


def open_store(
    uri: str, settings: StorageSettings | None = None, *, progress: Progress | None = None
) -> Store:
    """Open the root that a URI names: a local path, ``file://…`` or ``s3://bucket/prefix``.

    Args:
        uri: The root; nothing is read or written yet.
        settings: How to reach S3; boto3's own chain where left out.
        progress: Shows how far the transfer of a big object has come.

    Raises:
        UsageError: The URI has another scheme, or one with a slash missing, or its bucket or prefix is not
            one, or it lies outside of the allowed roots (see `check_allowed`).
    """
    check_spelling(uri)
    store = _open(uri, settings, progress)
    check_allowed(store)
    return store


def check_spelling(uri: str) -> None:
    """Refuse ``s3:bucket/prefix`` and the like, which would be a path of the local disk.

    Raises:
        UsageError: It begins like a URI and goes on like a path.
    """
    scheme = MISSPELT.match(uri)
    if scheme and "://" not in uri:
        raise UsageError(
            "A URI lacks the two slashes behind its scheme",
            found=repr(uri),
            expected=EXPECTED,
            remedy=f"A local path that begins so is written ./{scheme[0]}…",
        )


def _open(uri: str, settings: StorageSettings | None, progress: Progress | None) -> Store:
    scheme, found, rest = uri.partition("://")
    if not found:
        if not uri:
            raise UsageError("A path is empty", expected=EXPECTED)
        return LocalStore(Path(uri))
    if scheme == "file":
        if not rest.startswith("/"):  # what is behind the slashes would be a host
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
        raise UsageError("A URI is not in its plain form", found=repr(uri), expected=EXPECTED) from error


def check_allowed(store: Store) -> None:
    """Refuse a root that lies outside of those that the environment variable lists.

    ``PARTITION_OPS_ALLOWED_ROOTS`` holds local paths, ``file://…`` and ``s3://bucket/prefix``, with white
    space between them (a space in a path is ``%20`` in a ``file://``). Where it is not set, everything is
    allowed; where it is empty, nothing is. Local paths are compared after their links have been followed,
    and always by whole names: ``s3://graphs`` does not allow ``s3://graphs-of-others``.

    Raises:
        UsageError: The root is outside, or the list has an entry that is no root.
    """
    listed = os.environ.get(VARIABLE)
    if listed is None:
        return
    places = [_place_of(root) for root in listed.split()]
    if not any(_is_in(_followed(store), place) for place in places):
        raise UsageError(
            "A URI lies outside of the roots that may be read and written here",
            found=repr(store.uri),
            expected=listed.split() or "nothing, the list is empty",
            remedy=f"Use one of them, or have {VARIABLE} extended.",
        )


def _followed(store: Store) -> str:
    try:
        return store.place
    except (OSError, RuntimeError, ValueError) as error:  # links that lead to each other, no path at all
        raise UsageError(f"{store.uri!r} cannot be followed: {error}") from error


def _is_in(place: str, root: str) -> bool:
    return place == root or place.startswith(f"{root.rstrip('/')}/")


def _place_of(root: str) -> str:
    """A listed root in the form of `Store.place`."""
    scheme, found, rest = root.partition("://")
    if not found and root.startswith("/"):
        return str(Path(root).resolve())
    if scheme == "file" and rest.startswith("/"):
        return str(Path(unquote(urlsplit(root).path)).resolve())
    with suppress(InvalidInputError):
        if scheme == "s3":
            return f"s3://{check_key(rest.rstrip('/'))}"
    raise UsageError(
        f"{VARIABLE} has an entry that is not a root",
        found=repr(root),
        expected="an absolute path, file:///path or s3://bucket/prefix",
    )
