"""The assignment, which holds the partition of every node: DGL's text, a binary copy, and a sidecar."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate, chain
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from partition_ops.artifacts import layout
from partition_ops.artifacts.documents import read_document
from partition_ops.artifacts.tasks import ArtifactWriter
from partition_ops.chunked.feature_formats import read_numpy
from partition_ops.chunked.metadata import GraphMetadata
from partition_ops.errors import InvalidInputError
from partition_ops.storage import Artifact, Store
from partition_ops.storage.store import sha256_of
from partition_ops.system.parallel import map_in_threads

DGL_VERSION = "1.0.0"  # of partition_meta.json; DGL's dispatch tool demands it
SIDECAR_VERSION = 1
NUMBER = re.compile(rb"\s*-?[0-9]{1,18}\s*")
LINES = "Line i, counted from 0, has the partition number of the node of this type with the ID i."
Parts = npt.NDArray[np.int32]


@dataclass(frozen=True)
class Assignment:
    """The partition of every node."""

    num_parts: int  # number of partitions; some may be empty
    algo_name: str  # ``random`` or ``metis``, as DGL's tools name it
    parts: Parts  # (nodes,) int32, partition by homogeneous ID of the input graph

    def digest(self) -> str:
        """Return the SHA-256 of the number of partitions and the assignment, in hex."""
        digest = hashlib.sha256(f"{self.num_parts} {self.algo_name} ".encode())
        digest.update(self.parts.data)
        return digest.hexdigest()


def read_assignment(folder: Store, metadata: GraphMetadata) -> Assignment:
    """Read an assignment in DGL's text format, or its binary copy if that is up to date.

    Args:
        folder: Folder with ``partition_meta.json`` and ``<node type>.txt``.
        metadata: The graph's metadata.

    Raises:
        InvalidInputError: A file is missing, or a node has no partition or one that is out of range.

    Peak memory: 4 bytes per node, and the text of one type.
    """
    meta = read_meta(folder)
    num_parts = int(meta["num_parts"])
    counts = dict(zip(metadata.node_types, metadata.num_nodes, strict=True))
    return Assignment(num_parts, meta["algo_name"], read_parts(folder, counts, num_parts))


def num_parts_of(folder: Store) -> int:
    """Return the number of partitions of an assignment, from ``partition_meta.json`` alone.

    Raises:
        InvalidInputError: ``partition_meta.json`` is missing or damaged.
    """
    return int(read_meta(folder)["num_parts"])


def read_parts(folder: Store, counts: Mapping[str, int], num_parts: int) -> Parts:
    """Read the partitions of an assignment.

    Args:
        folder: As in `read_assignment`.
        counts: Number of nodes by node type, in the order of the type IDs.
        num_parts: Number of partitions.

    Returns:
        (nodes,) int32, partition by homogeneous ID.

    Raises:
        InvalidInputError: As in `read_assignment`.
    """
    parts = np.empty(sum(counts.values()), np.int32)
    digests: dict[str, str] = {}  # of the text files when their binary copies were written
    if folder.exists(layout.ASSIGNMENT_SIDECAR):
        digests = read_document(folder, layout.ASSIGNMENT_SIDECAR, "assignment")["text_sha256"]
    for (node_type, count), end in zip(counts.items(), accumulate(counts.values()), strict=True):
        found = _read_type(folder, node_type, count, num_parts, digests.get(node_type))
        parts[end - count : end] = found
    return parts


def read_meta(folder: Store) -> dict[str, Any]:
    return read_document(folder, layout.ASSIGNMENT_META, "partition_meta")


def _read_type(folder: Store, node_type: str, nodes: int, num_parts: int, digest: str | None) -> Parts:
    key, binary = layout.assignment_text(node_type), layout.assignment_binary(node_type)
    path, where = folder.local_copy(key), folder.uri_of(key)
    # the text may have been edited since the binary copy was written
    parts = None
    if digest is not None and folder.exists(binary) and sha256_of(path) == digest:
        parts = _read_binary(folder.local_copy(binary), nodes)
    if parts is None:
        parts = _parse(path.read_bytes(), where, node_type, nodes, num_parts)
    if parts.shape != (nodes,):
        raise InvalidInputError(
            f"{where}: the number of lines differs from the number of nodes of type {node_type!r}",
            found=f"{parts.shape[0] if parts.ndim else 0}",
            expected=f"{nodes}",
            remedy=LINES,
        )
    wrong = np.flatnonzero((parts < 0) | (parts >= num_parts))
    if len(wrong):
        node = int(wrong[0])
        raise InvalidInputError(
            f"{where}: line {node + 1} (node type {node_type!r}, ID {node}) has no valid partition",
            found=f"{int(parts[node])}",
            expected=f"0 to {num_parts - 1}",
            remedy=f"Correct the line, or num_parts in {layout.ASSIGNMENT_META}.",
        )
    return parts


def _read_binary(path: Path, nodes: int) -> Parts | None:
    """Return the partitions in the binary copy; None if it is damaged, because the text has them too."""
    try:
        parts = read_numpy(path, str(path))
    except InvalidInputError:
        return None
    return parts if parts.dtype == np.int32 and parts.shape == (nodes,) else None


def _parse(text: bytes, where: str, node_type: str, nodes: int, num_parts: int) -> Parts:
    words = text.split()
    try:
        parts = np.array(words, dtype="S20").astype(np.int64).clip(-1, 2**31 - 1).astype(np.int32)
    except (ValueError, OverflowError) as error:
        raise _bad_line(text, where, node_type, num_parts) from error
    # the number of lines is right, but a line is blank or has two numbers
    if len(words) != nodes and len(text.splitlines()) == nodes:
        raise _bad_line(text, where, node_type, num_parts)
    return parts


def _bad_line(text: bytes, where: str, node_type: str, num_parts: int) -> InvalidInputError:
    """Return the error for the first line that is not one number."""
    lines = text.splitlines()
    bad = next(i for i, line in enumerate(lines) if not NUMBER.fullmatch(line))
    return InvalidInputError(
        f"{where}: line {bad + 1} (node type {node_type!r}, ID {bad}) is not a partition number",
        found=repr(lines[bad][:50].decode(errors="replace")),
        expected=f"an integer from 0 to {num_parts - 1}",
        remedy=LINES,
    )


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
        some = parts[begin:end]
        lines = np.array([f"{part}\n" for part in range(int(some.max(initial=-1)) + 1)], "S")
        padded: bytes = lines[some].tobytes() if len(lines) else b""  # shorter numbers end with zeros
        key, binary = layout.assignment_text(node_type), layout.assignment_binary(node_type)
        text = folder.write_bytes(key, padded.translate(None, b"\0"), keep_copy=True)  # `convert` reads it
        return text, folder.write_array(binary, some, keep_copy=True)

    written = [*map_in_threads(write_type, metadata.node_types)]
    meta = {"version": DGL_VERSION, "num_parts": count, "algo_name": assignment.algo_name}
    sidecar = {
        "version": SIDECAR_VERSION,
        "num_parts": count,
        "made_by": dict(made_by),
        "text_sha256": {
            name: text.sha256 for name, (text, _) in zip(metadata.node_types, written, strict=True)
        },
        **(more or {}),
    }
    documents = ((layout.ASSIGNMENT_META, meta), (layout.ASSIGNMENT_SIDECAR, sidecar))
    described = [folder.write_json(key, document) for key, document in documents]
    for one in (*chain.from_iterable(written), *described):
        writer.wrote(Artifact(f"{layout.ASSIGNMENT}/{one.key}", one.size, one.sha256))
