"""The metadata of a graph from a schema file of the DGL guide, completed from the data.

The guide's schema has plain edge types (``writes``); their node types are those of the edges' ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from partition_ops.chunked.metadata import GraphMetadata, parse_metadata
from partition_ops.errors import InvalidInputError
from partition_ops.formats.parmetis.output_nodes import NodeTypes
from partition_ops.formats.parmetis.text_table import TextBlock, TextTable
from partition_ops.storage import Store
from partition_ops.system.json_documents import check_document

SAMPLES = 64
Ranges = Mapping[str, Sequence[int]]
Schema = dict[str, dict[str, list[int]]]


def read_schema(store: Store, key: str) -> Schema:
    """Read a schema file, ours or one that DGL's guide shows (edge types may be plain names there).

    Raises:
        InvalidInputError: The file is not a schema, or its ranges have a gap or an overlap.
    """
    where = store.uri_of(key)
    schema: Schema = store.read_json(key)
    check_document(schema, "schema", where=where)
    for kind, ranges in schema.items():
        expected = 0
        for name, (start, end) in sorted(ranges.items(), key=lambda item: item[1]):
            if start != expected or end < start:
                raise InvalidInputError(
                    f"{where}: the ranges of {kind!r} do not tile the ID space at {name!r}",
                    found=f"[{start}, {end}]",
                    expected=f"a range that begins at {expected}, where the previous range ends",
                )
            expected = end
    return schema


def node_types_of(ranges: Ranges) -> NodeTypes:
    """Return the node types in the order of their IDs, which is that of their ranges."""
    names = types_by_range(ranges)
    return NodeTypes(names, np.array([0, *(ranges[name][1] for name in names)], np.int64))


def metadata_of(
    ranges: Ranges, nodes: NodeTypes, edge_files: Iterable[TextTable], *, graph_name: str, where: str
) -> GraphMetadata:
    """Return the metadata, without files, of a graph that has a schema.

    Args:
        ranges: Homogeneous ID range of each edge type.
        nodes: The node types.
        edge_files: With the columns ``orig_src_id``, ``orig_dst_id`` and ``edge_type``; read only while
            the node types of an edge type with a plain name are unknown.
        graph_name: Name of the graph.
        where: URI of the schema, for messages.

    Raises:
        InvalidInputError: DGL cannot use a name; or an edge type with a plain name has no edges, in a graph
            with several node types.
    """
    names = types_by_range(ranges)
    canonical = _canonical(names, nodes, edge_files, where)
    counts = [ranges[name][1] - ranges[name][0] for name in names]
    no_files = {"format": {"name": "csv"}, "data": []}
    document = {
        "graph_name": graph_name,
        "node_type": list(nodes.names),
        "edge_type": canonical,
        "num_nodes_per_type": np.diff(nodes.offsets).tolist(),
        "num_edges_per_type": counts,
        "edges": dict.fromkeys(canonical, no_files),
    }
    return parse_metadata(document, where=where)


def types_by_range(ranges: Ranges) -> list[str]:
    """Return names by type ID; an empty range comes before the range with the same start."""
    return sorted(ranges, key=lambda name: tuple(ranges[name]))


def _canonical(
    names: Sequence[str], nodes: NodeTypes, edge_files: Iterable[TextTable], where: str
) -> list[str]:
    plain = {type_id for type_id, name in enumerate(names) if ":" not in name}
    ends = _find_ends(plain, nodes, edge_files)
    if len(nodes.names) == 1:
        ends = dict.fromkeys(plain, (nodes.names[0], nodes.names[0])) | ends
    for type_id in sorted(plain - set(ends)):
        raise InvalidInputError(
            f"{where}: the edge type {names[type_id]!r} has no edges, so that its node types cannot be found",
            found=repr(names[type_id]),
            expected="'src:rel:dst'",
            remedy="Write the name of that edge type in full.",
        )
    return [
        f"{ends[type_id][0]}:{name}:{ends[type_id][1]}" if type_id in ends else name
        for type_id, name in enumerate(names)
    ]


def _find_ends(
    wanted: set[int], nodes: NodeTypes, edge_files: Iterable[TextTable]
) -> dict[int, tuple[str, str]]:
    """Return the node types of the first edge of each wanted edge type; the other edges are checked later."""
    found: dict[int, tuple[str, str]] = {}
    tables = list(edge_files) if wanted else []
    # edges are mostly in the order of their types, so samples find all but rare types
    for table in tables:
        for block in table.samples(SAMPLES):
            _note_ends(found, wanted, nodes, block)
    for table in tables:
        if wanted <= set(found):
            break
        for block in table.blocks():
            ends = np.stack([block.columns["orig_src_id"], block.columns["orig_dst_id"]])
            inside = ((ends >= 0) & (ends < nodes.offsets[-1])).all(axis=0)
            table.require(
                block, inside, "an end of the edge is not a node", lambda _: f"0 to {nodes.offsets[-1] - 1}"
            )
            _note_ends(found, wanted, nodes, block)
            if wanted <= set(found):
                break
    return found


def _note_ends(
    found: dict[int, tuple[str, str]], wanted: set[int], nodes: NodeTypes, block: TextBlock
) -> None:
    """Enter the node types of wanted edge types that are new; skip impossible rows."""
    type_ids, rows = np.unique(block.columns["edge_type"], return_index=True)
    for type_id, row in zip(type_ids.tolist(), rows.tolist(), strict=True):
        if type_id in wanted and type_id not in found:
            ends = [int(block.columns[f"orig_{end}_id"][row]) for end in ("src", "dst")]
            if all(0 <= node < nodes.offsets[-1] for node in ends):
                src, dst = (nodes.names[nodes.type_of(node)] for node in ends)
                found[type_id] = (src, dst)
