"""The allow-list of roots: what this process may read and write at all."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from urllib.parse import unquote, urlsplit

from partition_ops.errors import InvalidInputError, UsageError
from partition_ops.storage.base import Store, check_key

VARIABLE = "PARTITION_OPS_ALLOWED_ROOTS"


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
