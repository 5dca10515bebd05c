"""Write the files of an assignment: DGL's text, a binary copy, and a sidecar that ties them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from partition_ops.artifacts import layout
from partition_ops.artifacts.assignment import Assignment, Parts
from partition_ops.artifacts.tasks import ArtifactWriter
from partition_ops.chunked.metadata import GraphMetadata
from partition_ops.storage import Artifact
from partition_ops.system.parallel import map_in_threads

DGL_VERSION = "1.0.0"  # of partition_meta.json; DGL's dispatch tool demands it
SIDECAR_VERSION = 1


def write_assignment_files(
    writer: ArtifactWriter,
    metadata: GraphMetadata,
    assignment: Assignment,
    *,
    made_by: Mapping[str, Any],
    more: Mapping[str, Any] | None = None,
) -> None:
    """Write the files of ``assignment/``.

    Args:
        writer: Collects what is written.
        metadata: The graph's metadata.
        assignment: The partition of every node.
        made_by: What made it, for the sidecar.
        more: Further entries of the sidecar.

    Peak memory: the text of one node type for each core.
    """
    parts, count = assignment.parts, assignment.num_parts
    folder = writer.destination.child(layout.ASSIGNMENT)

    def write_type(node_type: str) -> tuple[Artifact, Artifact]:
        begin, end = (metadata.node_offsets[metadata.node_type_id(node_type) + i] for i in (0, 1))
        text = folder.write_bytes(layout.assignment_text(node_type), _text(parts[begin:end]))
        return text, folder.write_array(layout.assignment_binary(node_type), parts[begin:end])

    texts = {}
    for node_type, written in zip(
        metadata.node_types, map_in_threads(write_type, metadata.node_types), strict=True
    ):
        texts[node_type] = written[0]
        for artifact in written:
            _wrote(writer, artifact)
    meta = {"version": DGL_VERSION, "num_parts": count, "algo_name": assignment.algo_name}
    _wrote(writer, folder.write_json(layout.ASSIGNMENT_META, meta))
    sidecar = {
        "version": SIDECAR_VERSION,
        "num_parts": count,
        "made_by": dict(made_by),
        "text_sha256": {node_type: text.sha256 for node_type, text in texts.items()},
        **(more or {}),
    }
    _wrote(writer, folder.write_json(layout.ASSIGNMENT_SIDECAR, sidecar))


def _wrote(writer: ArtifactWriter, written: Artifact) -> None:
    """Record an artifact of the assignment's folder under its key below the run's root."""
    writer.wrote(Artifact(f"{layout.ASSIGNMENT}/{written.key}", written.size, written.sha256))


def _text(parts: Parts) -> bytes:
    """Return the text of an assignment: one number a line."""
    lines = np.array([f"{part}\n" for part in range(int(parts.max(initial=-1)) + 1)], "S")
    padded: bytes = lines[parts].tobytes() if len(lines) else b""  # shorter numbers end with zeros
    return padded.translate(None, b"\0")
