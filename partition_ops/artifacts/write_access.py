"""Where a verb may write. Every verb asks `check_root` or `check_file` before it changes anything.

A root is what its marker says. A root without a marker is recognised by the manifest, records and reports in
it, as earlier versions and DAG runs leave them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from partition_ops.artifacts import layout
from partition_ops.artifacts.documents import read_document
from partition_ops.artifacts.manifest import read_manifest, read_validation_report
from partition_ops.artifacts.marker import COPY, FETCHED, GRAPH, ID_MAPS, IGNORED, OUTPUT, read_marker
from partition_ops.artifacts.records import read_record
from partition_ops.artifacts.stage import is_ours
from partition_ops.chunked.metadata import METADATA, GraphMetadata, load_metadata
from partition_ops.errors import InvalidInputError, PartitionOpsError, UsageError, some_of
from partition_ops.storage import Store

SHOWN = 5  # names in a message
NOTHING, FOREIGN = "nothing", "content of others"
INGEST_RECORD = layout.record("ingest")
SHOWN_AS = {
    OUTPUT: "an output",
    GRAPH: "an ingested graph",
    FETCHED: FETCHED,
    ID_MAPS: ID_MAPS,
    COPY: "an unfinished copy",
    FOREIGN: "other files",
}
OTHER_FOLDER, OTHER_FILE = "Choose a folder outside of it.", "Write the file to another folder."


@dataclass(frozen=True)
class Access:
    """What a verb may do with a root."""

    # what the root may hold already, and what the marker of a new root says. `FOREIGN` is for folders without
    # a marker that verbs share with others; these are not inside a root of ours
    holds: str
    new: bool = True  # whether the root may be new or empty
    inside: str = ""  # name of the folder of an output that the verb may also write to


VERBS = {
    "run": Access(OUTPUT),
    "stage": Access(OUTPUT),  # validate, partition and all others
    "ingest": Access(GRAPH),
    "fetch": Access(FETCHED),
    "copy": Access(COPY),
    "idmap carry-over": Access(ID_MAPS),
    "probe": Access(OUTPUT, new=False),
    "probe --cache": Access(FOREIGN),
    "dags": Access(FOREIGN),
    "examples": Access(FOREIGN),
    "pm-dglpart": Access(FOREIGN, inside=layout.PARMETIS_TEXT),
}


def check_root(
    verb: str, root: Store, *, reads: Sequence[Store] = (), within: Store | None = None, own: bool = False
) -> None:
    """Reject a root that a verb may not write to.

    Args:
        verb: One of `VERBS`.
        root: The root.
        reads: Roots that the verb reads and that cannot be its output.
        within: The output that the root is a part of.
        own: The caller knows that unmarked content is its own.

    Raises:
        UsageError: The root is also read, holds something else, or lies inside another root of ours.
        InvalidInputError: A marker is broken, or of a newer version.
    """
    access = VERBS[verb]
    check_separate(root, reads)
    content, names = _content_of(root)
    if content == FOREIGN and access.holds != FOREIGN and not own:
        raise foreign_content(root.uri, names)
    if content not in (access.holds, FOREIGN, NOTHING):
        raise UsageError(
            f"{root.uri} holds {SHOWN_AS[content]}, and not {SHOWN_AS[access.holds]}",
            found=f"{SHOWN_AS[content]} in {root.uri}",
            expected=f"a folder that is new or empty, or holds {SHOWN_AS[access.holds]}",
            remedy="Choose another folder.",
        )
    if within is None and (content != access.holds or content in (GRAPH, FOREIGN)):  # runs have ``ingest/``
        above = _root_above(root, access)
        if above is not None:
            raise UsageError(f"{root.uri} lies inside {above}", found=above, remedy=OTHER_FOLDER)


def check_separate(root: Store, reads: Sequence[Store]) -> None:
    """Reject an output that is also read."""
    if any(root.canonical_uri == read.canonical_uri for read in reads):
        raise UsageError(
            "The input and the output are the same",
            found=root.uri,
            remedy="Give the output a root of its own.",
        )


def check_file(
    store: Store,
    key: str,
    *,
    reads: Sequence[Store] = (),
    inputs: Iterable[str] = (),
    document: str = "",
) -> None:
    """Reject a single file that would replace a file that is read, or lie in a root of ours or in an input.

    Args:
        store: Folder of the file.
        key: Name of the file in it.
        reads: Roots of graphs that are read: nothing is written inside of them.
        inputs: Canonical URIs of files that are read, or that an output was made from.
        document: The kind of JSON document that is written; a file of another kind is not replaced.

    Raises:
        UsageError: It would.
    """
    folder, name = f"{store.canonical_uri.rstrip('/')}/{key}".rsplit("/", 1)
    place = f"{folder}/{name}"
    if place in {*inputs}:
        raise UsageError("The output would replace its own input", found=place, remedy=OTHER_FILE)
    for source in reads:
        if f"{folder}/".startswith(f"{source.canonical_uri.rstrip('/')}/"):
            raise UsageError("The output lies inside the input", found=place, remedy=OTHER_FILE)
    for above in (store, *_above(store)):
        what = _what_is_in(above) or _unfinished(above, _key_in(above, place))
        if what is not None:
            raise UsageError(
                f"The output lies inside {what}", found=f"{place} in {above.uri}", remedy=OTHER_FILE
            )
        if _key_in(above, place) in _graph_files(above):
            raise UsageError(
                "The output would replace a file of a graph",
                found=f"{place} in {above.uri}",
                remedy=OTHER_FILE,
            )
    if document and store.exists(key) and not _is_document(store, key, document):
        raise UsageError(
            "The output would replace a file that partition-ops did not write",
            found=place,
            expected=f"a new file, or one of the format {document!r}",
            remedy="Choose another name, or remove the file.",
        )


def check_apart(source: Store, destination: Store, metadata: GraphMetadata) -> None:
    """Reject an output that would overwrite its own input.

    Raises:
        UsageError: Both have the same root, or a file of the input lies where a run writes or deletes.
    """
    check_separate(destination, [source])
    files = ((f"{source.canonical_uri}/{key}", source.uri_of(key)) for key in (METADATA, *metadata.files()))
    check_places(files, destination, is_ours, "A file of the input lies where the output is written")


def check_places(
    files: Iterable[tuple[str, str]], destination: Store, written: Callable[[str], bool], problem: str
) -> None:
    """Reject a destination if a file that is read lies where something will be written.

    Args:
        files: The canonical URIs of files, and how messages show them.
        destination: The root.
        written: Takes a key below the root, and returns whether it may be written or removed.
        problem: The message.

    Raises:
        UsageError: A file does.
    """
    root = f"{destination.canonical_uri}/"
    for place, shown in files:
        if place.startswith(root) and written(place.removeprefix(root)):
            raise UsageError(problem, found=shown, remedy="Give the output a root of its own.")


def files_behind(run: Store) -> set[str]:
    """Return the canonical URIs of the files that a run was made from: chunks and tables, if it says so."""
    found: list[str] = []
    with suppress(InvalidInputError):  # it is not finished
        recorded = read_manifest(run).get("input") or {"files": []}
        found += [f"{recorded['uri']}/{entry['path']}" for entry in recorded["files"]]
    with suppress(InvalidInputError):  # it was not made from tables
        found += [entry["path"] for entry in read_record(run.child(layout.INGEST), "ingest")["inputs"]]
    return {place if "://" in place else str(Path(place).resolve()) for place in found}


def foreign_content(uri: str, names: Sequence[str]) -> UsageError:
    """Return the error for a folder with content of others."""
    return UsageError(
        f"{uri} has content that partition-ops did not write, and could overwrite",
        found=some_of(sorted(names), SHOWN),
        expected=f"a folder that is new, empty, or has {layout.MARKER}, which marks outputs",
        remedy="Choose another folder, or move these files away.",
    )


def _content_of(root: Store) -> tuple[str, Sequence[str]]:
    """Return what a root holds, and the names of content of others."""
    marker = read_marker(root)
    if marker is not None:
        content: str = marker["content"]  # up to version 0.2, the marker of an ingested graph said OUTPUT
        return (GRAPH if content == OUTPUT and root.exists(INGEST_RECORD) else content), ()
    names = [
        name
        for name in root.names()
        if name not in IGNORED and not (name.endswith(".json") and _is_document(root, name, "schema"))
    ]
    if not names:
        return NOTHING, ()
    if _has_record(root, INGEST_RECORD):
        return GRAPH, ()
    # a run that was killed when it began to ingest has left no more than ``ingest/`` with a lock
    graph = (GRAPH, NOTHING)
    others = [n for n in names if n != layout.INGEST or _content_of(root.child(n))[0] not in graph]
    return (OUTPUT, ()) if not others or _is_old_output(root) else (FOREIGN, others)


def _root_above(root: Store, access: Access) -> str | None:
    """Return which root of ours, or graph in the chunked format, a root lies in; None if it lies in none.

    An output may lie inside a graph, such as that of which it was made: `check_apart` keeps them apart.
    """
    for above in (root, *_above(root)):
        if above is root and access.holds != FOREIGN:
            continue
        key = _key_in(above, root.canonical_uri)
        what = None
        if not access.inside or key != access.inside:
            what = _what_is_in(above) or _unfinished(above, key)
        if what is None and access.holds != OUTPUT and _graph_files(above):
            what = "a graph"
        if what is not None:
            return f"{what}: {above.uri}"
    return None


def _key_in(root: Store, place: str) -> str:
    """Return the key of a canonical URI below a root; empty for the root itself."""
    return place.removeprefix(root.canonical_uri.rstrip("/")).removeprefix("/")


def _above(root: Store) -> Iterator[Store]:
    """Yield the roots above one, the nearest first."""
    with suppress(InvalidInputError):
        while True:
            root = root.above(1)
            yield root


def _what_is_in(root: Store) -> str | None:
    """Return what of ours a root holds, for messages; None without access to it."""
    with suppress(PartitionOpsError):
        marker = read_marker(root)
        if marker is None or marker["content"] == OUTPUT:
            if root.exists(layout.MANIFEST):
                read_manifest(root)
                return "a finished output"
            return None  # see `_unfinished`
        return SHOWN_AS[marker["content"]]
    return None


def _unfinished(root: Store, key: str) -> str | None:
    """Return that a root is an output, if a job writes there to a key.

    Elsewhere in an output that is not finished, there may be others, such as the steps of the text route,
    whose schema and partitions lie beside the text.
    """
    if key.startswith(f"{layout.PARMETIS_TEXT}/"):
        return None
    with suppress(PartitionOpsError):
        marker = read_marker(root)
        if marker is not None and marker["content"] == OUTPUT and is_ours(key):
            return "an output"
    return None


def _graph_files(root: Store) -> set[str]:
    """Return the keys of the files of a graph in the chunked format; none if there is no such graph."""
    with suppress(PartitionOpsError):
        if root.exists(METADATA):
            return {METADATA, *load_metadata(root).files()}
    return set()


def _is_document(root: Store, name: str, kind: str) -> bool:
    with suppress(InvalidInputError):
        read_document(root, name, kind)
        return True
    return False


def _has_record(root: Store, key: str) -> bool:
    task = layout.task_of(key)
    with suppress(InvalidInputError):
        return task is not None and bool(read_record(root, task))
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
    return any(_has_record(root, entry.key) for entry in root.list(f"{layout.RECORDS}/"))
