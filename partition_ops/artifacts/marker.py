"""``partition-ops.json``: marks a root that this package writes to; roots with other content are refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from partition_ops.artifacts import layout
from partition_ops.artifacts.documents import read_document
from partition_ops.artifacts.manifest import read_manifest, read_validation_report
from partition_ops.artifacts.records import read_record
from partition_ops.errors import InvalidInputError, PartitionOpsError, UsageError, some_of
from partition_ops.storage import Store
from partition_ops.system.json_documents import explain_damage

MARKER_VERSION = 1
OUTPUT = "output"
FETCHED = "fetched partitions"
SHOWN = 5  # names in a message
IGNORED = {layout.LOCK, layout.MARKER}
Marker = dict[str, Any]


def read_marker(root: Store) -> Marker | None:
    """Return the marker of a root, or None if it has none.

    Raises:
        InvalidInputError: The marker is broken, or of a newer version.
    """
    if not root.exists(layout.MARKER):
        return None
    where = root.uri_of(layout.MARKER)
    with explain_damage(
        where,
        f"{where} is not the marker of a root of partition-ops",
        expected=f"version {MARKER_VERSION} of the marker that every output has",
        remedy="Choose another output, or use the version of partition-ops that wrote this one.",
    ):
        return read_document(root, layout.MARKER, "marker")


def write_marker(root: Store, content: str = OUTPUT, *, files: Sequence[str] | None = None) -> None:
    """Write the marker of a root.

    Args:
        root: The root.
        content: `OUTPUT` or `FETCHED`.
        files: Paths of all files that were written there, if no records list them.
    """
    listed = {} if files is None else {"files": sorted(files)}
    root.write_json(layout.MARKER, {"version": MARKER_VERSION, "content": content, **listed})


def check_own(root: Store) -> bool:
    """Reject a root with content that is not ours, or that lies inside another output.

    A root is ours if it has the marker. Outputs of earlier versions have none; a valid manifest, record,
    report of the validation or ``beginning.json`` shows that they are ours. A file that the verb ``schema``
    wrote there, and a graph that was ingested there, are accepted too.

    Returns:
        Whether the root has the marker.

    Raises:
        UsageError: It has other content.
        InvalidInputError: The marker is broken, or of a newer version.
    """
    marker = read_marker(root)
    if marker is not None:
        if marker["content"] != OUTPUT:
            raise UsageError(
                f"{root.uri} holds {marker['content']}, and no output",
                remedy="Choose another output.",
            )
        return True
    names = [name for name in root.names() if name not in IGNORED and not _is_ours(root, name)]
    if not names:
        found = output_above(root)
        if found is not None:
            raise UsageError(
                f"{root.uri} lies inside a finished output",
                found=f"the output {found}",
                remedy="Choose a folder outside of it.",
            )
    elif not _is_old_output(root):
        raise foreign_content(root.uri, names)
    return False


def foreign_content(uri: str, names: Sequence[str]) -> UsageError:
    """Return the error for a folder with content of others."""
    return UsageError(
        f"{uri} has content that partition-ops did not write, and could overwrite",
        found=some_of(sorted(names), SHOWN),
        expected=f"a folder that is new, empty, or has {layout.MARKER}, which marks outputs",
        remedy="Choose another folder, or move these files away.",
    )


def check_target(
    store: Store, key: str, *, sources: Sequence[Store] = (), inputs: Sequence[str] = ()
) -> None:
    """Reject a file of its own that would lie in a finished output or in an input, or replace an input file.

    Args:
        store: Folder of the file.
        key: Name of the file in it.
        sources: Roots of graphs that are read.
        inputs: Canonical URIs of files that are read.

    Raises:
        UsageError: It would.
    """
    folder, name = f"{store.canonical_uri.rstrip('/')}/{key}".rsplit("/", 1)
    place, remedy = f"{folder}/{name}", "Write the file to another folder."
    if place in inputs:
        raise UsageError("The output would replace its own input", found=place, remedy=remedy)
    for source in sources:
        if f"{folder}/".startswith(f"{source.canonical_uri.rstrip('/')}/"):
            raise UsageError("The output lies inside the input", found=place, remedy=remedy)
    found = store.uri if is_finished(store) else output_above(store)
    if found is not None:
        raise UsageError(
            "The output lies inside a finished output", found=f"{place} in {found}", remedy=remedy
        )


def output_above(root: Store) -> str | None:
    """Return the URI of a finished output that a root lies in, or None."""
    above = root
    while True:
        try:
            above = above.above(1)
        except InvalidInputError:
            return None
        if is_finished(above):
            return above.uri


def is_finished(root: Store) -> bool:
    """Return whether a root has the manifest of a run; false without access to it."""
    with suppress(PartitionOpsError):
        if root.exists(layout.MANIFEST):
            read_manifest(root)
            return True
    return False


@contextmanager
def claimed(root: Store) -> Iterator[None]:
    """Mark a root as ours during a block that writes there; a marker without anything else is removed.

    The caller has called `check_own`.
    """
    marked = root.exists(layout.MARKER)
    if not marked:
        write_marker(root)
    try:
        yield
    finally:
        with suppress(PartitionOpsError):
            if not marked and not {*root.names()} - IGNORED:
                root.delete([layout.MARKER])
                root.delete_made_folders()


def _is_ours(root: Store, name: str) -> bool:
    if name == layout.INGEST:
        ingested = root.child(name)
        return ingested.exists(layout.MARKER) or _is_old_output(ingested)
    with suppress(InvalidInputError):
        if name.endswith(".json"):
            read_document(root, name, "schema")
            return True
    return False


def _is_old_output(root: Store) -> bool:
    checks: tuple[Callable[[], object], ...] = (
        lambda: read_manifest(root),
        lambda: read_document(root, layout.BEGINNING, "beginning"),
        lambda: read_validation_report(root),
    )
    for check in checks:
        with suppress(InvalidInputError):
            check()
            return True
    for entry in root.list(f"{layout.RECORDS}/"):
        with suppress(InvalidInputError):
            read_record(root, entry.key.removeprefix(f"{layout.RECORDS}/").removesuffix(".json"))
            return True
    return False
