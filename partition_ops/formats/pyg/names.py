"""Names in PyG's files: of the files themselves, and of the features that PyG's loaders look for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from partition_ops.artifacts.book import Book

META = "META.json"
FEATURES = "features.json"
GRAPH, NODE_FEATURES, EDGE_FEATURES = "graph.pt", "node_feats.pt", "edge_feats.pt"
# PyG's name of a feature, and the names in the input that stand for it, the first that a type has
NODE_NAMES = {"x": ("x", "feat", "features"), "y": ("y", "label", "labels")}
EDGE_NAMES = {"edge_attr": ("edge_attr", "feat", "features")}
LABEL = "y"


def triple(edge_type: str) -> tuple[str, ...]:
    """Return an edge type as PyG has it."""
    return tuple(edge_type.split(":"))


def map_file(kind: str, type_name: str, *, hetero: bool) -> str:
    """Return the path of a tensor over all nodes or edges of a type, below the folder of the format.

    Args:
        kind: ``node_map``, ``edge_map`` or ``labels``.
        type_name: The node type or edge type.
        hetero: Whether there are several types.
    """
    return f"{kind}/{'__'.join(triple(type_name))}.pt" if hetero else f"{kind}.pt"


def names_by_type(columns: Iterable[str], known: Mapping[str, tuple[str, ...]]) -> dict[str, dict[str, str]]:
    """Return, by type and by the name in PyG's files, the names of features in the input.

    A feature of the input that PyG looks for gets PyG's name; every other one keeps its own.

    Args:
        columns: The features, ``type/name``.
        known: `NODE_NAMES` or `EDGE_NAMES`.
    """
    found: dict[str, list[str]] = {}
    for column in columns:
        type_name, _, name = column.partition("/")
        found.setdefault(type_name, []).append(name)
    return {type_name: _renamed(names, known) for type_name, names in found.items()}


def _renamed(names: list[str], known: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
    chosen: dict[str, str] = {}
    for theirs, ours in known.items():
        first = next((name for name in ours if name in names), None)
        if first is not None:
            chosen[first] = theirs
    return {chosen.get(name, name): name for name in names}


def meta(book: Book) -> dict[str, Any]:
    """Return ``META.json``."""
    hetero = not book.is_homogeneous  # PyG holds it as ``HeteroData``
    starts, end = [], 0
    for counts in book.node_counts.values():
        starts.append(end)
        end += sum(counts)
    return {
        "num_parts": book.num_parts,
        "node_types": book.node_types if hetero else None,
        "edge_types": [list(triple(name)) for name in book.edge_types] if hetero else None,
        "node_offset": starts if hetero else None,
        "is_hetero": hetero,
        "is_sorted": True,
    }
