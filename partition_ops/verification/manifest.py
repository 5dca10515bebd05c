"""Checks of the manifest: neither the output nor the input has changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from partition_ops.artifacts import layout
from partition_ops.chunked.metadata import METADATA, GraphMetadata
from partition_ops.errors import InvalidInputError
from partition_ops.storage import Store
from partition_ops.storage.store import sha256_of
from partition_ops.verification.report import Findings

SHOWN = 5
LISTED_FOLDERS = ("schema/", f"{layout.ASSIGNMENT}/", f"{layout.PARTITIONS}/", "idmap/")


def check_manifest(findings: Findings, source: Store, destination: Store, metadata: GraphMetadata) -> None:
    """Compare sizes and SHA-256 of every artifact. Memory: that of the list of artifacts.

    Raises:
        InvalidInputError: The metadata or most files differ from those that the output was made from.
    """
    manifest: dict[str, Any] = {}
    files: list[dict[str, Any]] = []
    changed: list[str] = []
    with findings.check("manifest-artifacts"):
        manifest = destination.read_json(layout.MANIFEST)
        _check_files(findings, "manifest-artifacts", destination, manifest["artifacts"])
        listed = {entry["key"] for entry in manifest["artifacts"]}
        _check_complete(findings, destination, metadata, listed)
    if manifest:
        with findings.check("manifest-input"):
            files = [{**entry, "key": entry["path"]} for entry in manifest["input"]["files"]]
            changed = _check_files(findings, "manifest-input", source, files)
            listed, needed = {entry["key"] for entry in files}, {METADATA, *metadata.files()}
            findings.same("manifest-input", "the list of input files", sorted(listed), sorted(needed))
            findings.same("manifest-input", "the graph's name", manifest["graph_name"], metadata.graph_name)
    if METADATA in changed or 2 * len(changed) > len(files):
        raise _another_input(source, destination, manifest["input"], changed)


def _another_input(
    source: Store, destination: Store, listed: Mapping[str, Any], changed: list[str]
) -> InvalidInputError:
    shown = ", ".join(changed[:SHOWN]) + (", …" if len(changed) > SHOWN else "")
    return InvalidInputError(
        f"{source.uri} is not the graph that {destination.uri} was made of",
        found=f"{len(changed)} of {len(listed['files'])} files are missing or others: {shown}",
        expected=f"the files that its {layout.MANIFEST} lists, as they were in {listed.get('uri')}",
        remedy="Name that input; if it has changed since, run the job again.",
    )


def _check_complete(
    findings: Findings, destination: Store, metadata: GraphMetadata, listed: set[str]
) -> None:
    """Check that every file for users is listed, whether it exists or not."""
    found = {entry.key for folder in LISTED_FOLDERS for entry in destination.list(folder)}
    needed = {
        layout.schema_file(metadata.graph_name),
        layout.partition_config(metadata.graph_name),
        *(layout.node_id_map(name) for name in metadata.node_types),
        *(layout.edge_id_map(str(name)) for name in metadata.edge_types),
    }
    missing = sorted((found | needed) - listed)
    if missing:
        findings.fail("manifest-artifacts", f"{missing[0]} is not listed ({len(missing)} such)")


def _check_files(
    findings: Findings, check: str, store: Store, entries: Iterable[Mapping[str, Any]]
) -> list[str]:
    """Return the keys of the artifacts that differ from the list."""
    changed = []
    for entry in entries:
        wrong = _wrong(store, entry)
        if wrong is not None:
            findings.fail(check, f"{entry['key']} {wrong}")
            changed.append(str(entry["key"]))
    return changed


def _wrong(store: Store, entry: Mapping[str, Any]) -> str | None:
    found = store.stat(entry["key"])
    if found is None:
        return "is listed, but not there"
    if found.size != entry["size"]:
        return f"has {found.size} bytes, listed with {entry['size']}"
    if sha256_of(store.local_copy(entry["key"])) != entry["sha256"]:
        return "has another SHA-256 than listed"
    return None
