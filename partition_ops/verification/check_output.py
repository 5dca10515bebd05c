"""Checks of the files that describe the whole output: manifest, schema, assignment, book."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from partition_ops.artifacts import layout
from partition_ops.artifacts.book import Book, read_book
from partition_ops.chunked.metadata import METADATA, GraphMetadata
from partition_ops.errors import InvalidInputError
from partition_ops.formats.findings import Findings
from partition_ops.formats.format import Format
from partition_ops.formats.parmetis.graph_store import TextGraphStore
from partition_ops.storage import Store
from partition_ops.system.json_documents import check_document
from partition_ops.verification.artifact_readers import (
    read_assigned,
    read_assigned_binary,
    read_whole_manifest,
)
from partition_ops.verification.check_figures import check_records
from partition_ops.verification.input_graph import Ids, id_dtype

SHOWN = 5
LISTED_FOLDERS = (
    "schema/",
    f"{layout.ASSIGNMENT}/",
    f"{layout.PARTITIONS}/",
    "formats/",
    "idmap/",
    f"{layout.CACHE}/",
)


def check_manifest(
    findings: Findings, source: Store, output: Store, metadata: GraphMetadata, *, is_text: bool = False
) -> None:
    """Compare sizes and SHA-256 of every artifact. Memory: that of the list of artifacts.

    Args:
        findings: Takes the failures.
        source: Root of the input graph.
        output: Root of the output.
        metadata: Metadata of the input graph.
        is_text: Whether the manifest lists the text that ``convert-partition`` read.

    Raises:
        InvalidInputError: The metadata, or most files, differ from those that the output was made from.
    """
    manifest: dict[str, Any] = {}
    files: list[dict[str, Any]] = []
    changed: list[str] = []
    with findings.check("manifest-artifacts"):
        manifest = read_whole_manifest(output)
        _check_files(findings, "manifest-artifacts", output, manifest["artifacts"])
        listed = {entry["key"] for entry in manifest["artifacts"]}
        _check_complete(findings, output, metadata, listed)
        check_records(findings, output, manifest["artifacts"])
    if manifest:
        with findings.check("manifest-input"):
            findings.same("manifest-input", "the graph's name", manifest["graph_name"], metadata.graph_name)
            files = [{**entry, "key": entry["path"]} for entry in manifest["input"]["files"]]
            if is_text:
                if isinstance(source, TextGraphStore):
                    changed = _check_files(findings, "manifest-input", source.text, files)
            else:
                changed = _check_files(findings, "manifest-input", source, files)
                listed, needed = {entry["key"] for entry in files}, {METADATA, *metadata.files()}
                findings.same("manifest-input", "the list of input files", sorted(listed), sorted(needed))
    if METADATA in changed or 2 * len(changed) > len(files):
        raise _another_input(source, output, manifest["input"], changed)


def check_schema(findings: Findings, output: Store, metadata: GraphMetadata) -> None:
    """Check ``schema/<graph>.json``."""
    with findings.check("schema"):
        document = output.read_json(layout.schema_file(metadata.graph_name))
        edge_types = [str(edge_type) for edge_type in metadata.edge_types]
        for key, names, counts in (
            ("nid", list(metadata.node_types), metadata.num_nodes),
            ("eid", edge_types, metadata.num_edges),
        ):
            ends = np.cumsum(counts).tolist()
            expected = {n: [end - c, end] for n, end, c in zip(names, ends, counts, strict=True)}
            findings.same("schema", key, document[key], expected)
            findings.same("schema", f"the order of {key}", list(document[key]), names)


def read_assignment(
    findings: Findings, output: Store, metadata: GraphMetadata
) -> tuple[int, list[Ids]] | None:
    """Return the number of partitions, and the partition of every node by type ID; None if unusable."""
    found: list[Ids] = []
    with findings.check("assignment"):
        meta = output.read_json(f"{layout.ASSIGNMENT}/{layout.ASSIGNMENT_META}")
        check_document(meta, "partition_meta", where=layout.ASSIGNMENT_META)
        num_parts = meta["num_parts"]
        for node_type, count in zip(metadata.node_types, metadata.num_nodes, strict=True):
            parts, where = read_assigned(output, node_type), f"{layout.assignment_text(node_type)!r}"
            if findings.same("assignment", f"the number of lines of {where}", len(parts), count):
                wrong = np.flatnonzero((parts < 0) | (parts >= num_parts))
                if len(wrong):
                    row = int(wrong[0])
                    what = f"line {row + 1} of {where} is {parts[row]}, of {num_parts} partitions"
                    findings.fail("assignment", what)
                else:
                    found.append(parts.astype(id_dtype(num_parts)))
            binary = read_assigned_binary(output, node_type)
            findings.equal("assignment", f"the binary copy of {node_type!r}", binary, parts)
    return (num_parts, found) if len(found) == len(metadata.node_types) else None


def read_convert_options(findings: Findings, output: Store) -> dict[str, Any]:
    """Return the options of ``convert``, from the manifest or the record; none if they are unreadable."""
    with findings.check("configuration"):
        if output.exists(layout.MANIFEST):
            return dict(read_whole_manifest(output)["options"][layout.CONFIG_TASK])
        return dict(output.read_json(layout.record(layout.CONFIG_TASK))["options"])
    return {}


def check_book(findings: Findings, output: Store, expected: Book) -> None:
    """Check ``convert/book.json``."""
    with findings.check("configuration"):
        book = read_book(output)
        for name in ("graph_name", "num_parts", "num_hops", "formats", "node_types", "edge_types"):
            value = getattr(expected, name)
            findings.same("configuration", f"{name} of the book", getattr(book, name), value)
        for check, found, ranges in (
            ("node-ranges", book.node_ranges(), expected.node_ranges()),
            ("edge-ranges", book.edge_ranges(), expected.edge_ranges()),
        ):
            with findings.check(check):
                findings.same(check, "the list of types in the book", sorted(found), sorted(ranges))
                for name in found.keys() & ranges.keys():
                    findings.same(check, f"ranges of {name!r} in the book", found[name], ranges[name])


def check_part_folders(findings: Findings, output: Store, form: Format, num_parts: int) -> None:
    """Check that a format has no files of other partitions."""
    with findings.check("configuration"):
        allowed = tuple(f"{form.part_folder(part)}/" for part in range(num_parts))
        # a graph may be named "part0": its configuration is a file beside the folders
        others = () if form.folder else (f"{layout.PARTITIONS}/",)
        start = len(form.key(""))
        extra = sorted(
            entry.key
            for entry in output.list(form.key("part"))
            if "/" in entry.key[start:] and not entry.key.startswith((*allowed, *others))
        )
        findings.same("configuration", f"{form.name}: the list of files of other partitions", extra, [])


def _another_input(
    source: Store, output: Store, listed: Mapping[str, Any], changed: list[str]
) -> InvalidInputError:
    shown = ", ".join(changed[:SHOWN]) + (", …" if len(changed) > SHOWN else "")
    return InvalidInputError(
        f"{source.uri} is not the graph that {output.uri} was made from",
        found=f"{len(changed)} of {len(listed['files'])} files are missing or differ: {shown}",
        expected=f"the files that its {layout.MANIFEST} lists, as they were in {listed.get('uri')}",
        remedy="Use that input. If it has changed since, run the job again.",
    )


def _check_complete(findings: Findings, output: Store, metadata: GraphMetadata, listed: set[str]) -> None:
    """Check that every file that users read is listed, whether it exists or not."""
    found = {entry.key for folder in LISTED_FOLDERS for entry in output.list(folder)}
    needed = {
        layout.schema_file(metadata.graph_name),
        *(layout.node_id_map(name) for name in metadata.node_types),
        *(layout.edge_id_map(str(name)) for name in metadata.edge_types),
    }
    missing = sorted((found | needed) - listed)
    if missing:
        findings.fail("manifest-artifacts", f"{missing[0]} is not listed ({len(missing)} such)")


def _check_files(
    findings: Findings, check: str, store: Store, entries: Iterable[Mapping[str, Any]]
) -> list[str]:
    """Return the keys of files that differ from their entries."""
    changed = []
    for entry in entries:
        wrong = _difference(store, entry)
        if wrong is not None:
            findings.fail(check, f"{entry['key']} {wrong}")
            changed.append(str(entry["key"]))
    return changed


def _difference(store: Store, entry: Mapping[str, Any]) -> str | None:
    found = store.stat(entry["key"])
    if found is None:
        return "is listed, but not there"
    if found.size != entry["size"]:
        return f"has {found.size} bytes, listed with {entry['size']}"
    if store.checked_copy(entry["key"], entry["sha256"]) is None:
        return "has another SHA-256 than listed"
    return None
