"""Names in ``metadata.json``: of the graph, of node types, of canonical edge types, and of masks."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from partition_ops.errors import InvalidInputError, one_of

TRAIN_MASK = "train_mask"
MASKS = (TRAIN_MASK, "val_mask", "test_mask")  # features of nodes, and columns of negatives
GRAPH_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
LONGEST_NAME = 200  # bytes; with a suffix it must fit into the 255 bytes of common file systems
RESERVED = ".partial-"  # in the names of unfinished files
SHOWN = 100  # characters of a name in a message


@dataclass(frozen=True)
class EdgeType:
    """A canonical edge type."""

    src: str  # node type of the sources
    rel: str  # name of the relation
    dst: str  # node type of the destinations

    def __str__(self) -> str:
        return f"{self.src}:{self.rel}:{self.dst}"

    @property
    def triple(self) -> tuple[str, str, str]:
        return (self.src, self.rel, self.dst)


def check_graph_name(name: str, where: str) -> str:
    """Check that DGL can use a graph name, and return it.

    Raises:
        InvalidInputError: DGL cannot use it.
    """
    if not GRAPH_NAME.fullmatch(name) or len(name) > LONGEST_NAME:
        raise InvalidInputError(
            f"{where}: DGL cannot use the graph name",
            found=repr(name),
            expected=f"letters, digits and underscores, not beginning with a digit, at most {LONGEST_NAME}",
            remedy="Rename the graph in metadata.json, or set another name with --graph-name.",
        )
    return name


def shortened(name: str) -> str:
    """Return a name for a message, with quotes."""
    return repr(name) if len(name) <= SHOWN else f"{name[:SHOWN]!r}… ({len(name):,} characters)"


def read_edge_type(text: str, node_types: Sequence[str], where: str) -> EdgeType:
    """Parse ``src:rel:dst``.

    Raises:
        InvalidInputError: It is not canonical, or names an unknown node type.
    """
    parts = text.split(":")
    if len(parts) != 3 or not all(parts):
        raise InvalidInputError(
            f"{where}: an edge type is not canonical", found=repr(text), expected="'src:rel:dst'"
        )
    for node_type in (parts[0], parts[2]):
        if node_type not in node_types:
            raise InvalidInputError(
                f"{where}: edge type {text!r} names an unknown node type",
                found=repr(node_type),
                expected=one_of(node_types),
            )
    return EdgeType(*parts)


def check_names(names: Sequence[str], kind: str, where: str) -> None:
    """Check the names of all node types or edge types of a graph.

    Args:
        names: The names; those of edge types as ``src:rel:dst``.
        kind: ``node type`` or ``edge type``.
        where: URI of the metadata, for messages.

    Raises:
        InvalidInputError: A name cannot be that of a file or a key of DGL, or is listed twice.
    """
    for name in names:
        plain = name.replace(":", "") if kind == "edge type" else name
        bad = "/" in plain or "\\" in plain or ":" in plain or not plain.isprintable() or not plain.strip()
        if bad or name in (".", "..") or RESERVED in name or len(name.encode()) > LONGEST_NAME:
            raise InvalidInputError(
                f"{where}: the {kind} {shortened(name)} cannot be the name of a file or a key of DGL",
                expected=f"printable, at most {LONGEST_NAME} bytes, without '/', '\\', ':' and {RESERVED!r}",
                remedy="Rename it in metadata.json.",
            )
    ambiguous = {"node type": "_N", "edge type": "_N:_E:_N"}[kind]
    if ambiguous in names and len(names) > 1:
        raise InvalidInputError(
            f"{where}: DGL reserves the {kind} {ambiguous!r} for homogeneous graphs",
            found=f"{len(names)} {kind}s, including it",
            expected="another name in a graph with several types",
            remedy="Rename it in metadata.json; DGL's partition book would return wrong results for it.",
        )
    twice = next((name for name in names if list(names).count(name) > 1), None)
    if twice is not None:
        raise InvalidInputError(f"{where}: the {kind} {twice!r} is listed twice", expected="each name once")
