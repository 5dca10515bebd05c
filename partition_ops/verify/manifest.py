"""Checks of the manifest: nothing has changed since, here or in the input."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from partition_ops import artifacts
from partition_ops.graph.metadata import GraphMetadata
from partition_ops.storage import Store
from partition_ops.storage.base import sha256_of
from partition_ops.verify.report import Findings

LISTED_FOLDERS = ("schema/", f"{artifacts.ASSIGNMENT}/", f"{artifacts.PARTITIONS}/", "idmap/")


def check_manifest(findings: Findings, source: Store, destination: Store, metadata: GraphMetadata) -> None:
    """Compare sizes and SHA-256 of every artifact. Memory: that of the list of artifacts."""
    manifest: dict[str, Any] = {}
    with findings.check("manifest-artifacts"):
        manifest = destination.read_json(artifacts.MANIFEST)
        _check_files(findings, "manifest-artifacts", destination, manifest["artifacts"])
        listed = {entry["key"] for entry in manifest["artifacts"]}
        _check_complete(findings, destination, metadata, listed)
    if manifest:
        with findings.check("manifest-input"):
            files = [{**entry, "key": entry["path"]} for entry in manifest["input"]["files"]]
            _check_files(findings, "manifest-input", source, files)
            listed, needed = {entry["key"] for entry in files}, {artifacts.METADATA, *metadata.files()}
            findings.same("manifest-input", "the list of input files", sorted(listed), sorted(needed))
            findings.same("manifest-input", "the graph's name", manifest["graph_name"], metadata.graph_name)


def _check_complete(
    findings: Findings, destination: Store, metadata: GraphMetadata, listed: set[str]
) -> None:
    """Every file that a user reads is listed, whether it is there or not."""
    found = {entry.key for folder in LISTED_FOLDERS for entry in destination.list(folder)}
    needed = {
        artifacts.schema_file(metadata.graph_name),
        artifacts.partition_config(metadata.graph_name),
        *(artifacts.node_id_map(name) for name in metadata.node_types),
        *(artifacts.edge_id_map(str(name)) for name in metadata.edge_types),
    }
    missing = sorted((found | needed) - listed)
    if missing:
        findings.fail("manifest-artifacts", f"{missing[0]} is not listed ({len(missing)} such)")


def _check_files(findings: Findings, check: str, store: Store, entries: Iterable[Mapping[str, Any]]) -> None:
    for entry in entries:
        found = store.stat(entry["key"])
        if found is None:
            findings.fail(check, f"{entry['key']} is listed, but not there")
        elif found.size != entry["size"]:
            findings.fail(check, f"{entry['key']} has {found.size} bytes, listed with {entry['size']}")
        elif sha256_of(store.local_copy(entry["key"])) != entry["sha256"]:
            findings.fail(check, f"{entry['key']} has another SHA-256 than listed")
