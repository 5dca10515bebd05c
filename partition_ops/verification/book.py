"""Checks with DGL's own partition book and loader."""

from __future__ import annotations

from typing import Any

import numpy as np

from partition_ops.errors import InvalidInputError
from partition_ops.system.dgl_import import import_dgl
from partition_ops.verification.output import Array, Output
from partition_ops.verification.report import Findings
from partition_ops.verification.truth import Ranges, Truth

CHECK = "partition-book"


def check_load(findings: Findings, part: int, output: Output, truth: Truth) -> None:
    """Load the whole partition with DGL's loader. Peak memory: the partition."""
    metadata, where = truth.metadata, f"part {part}"
    with findings.check("dgl-load"):
        try:
            loaded = output.load_as_dgl(part)
        except InvalidInputError:  # damaged, so DGL was not called
            raise
        except Exception as error:  # this check looks for any exception of DGL
            findings.fail("dgl-load", f"{where}: DGL raises {type(error).__name__}: {error}")
            return
        edge_types = [edge_type.triple for edge_type in metadata.edge_types]
        findings.same("dgl-load", f"{where}: the graph's name", loaded[4], metadata.graph_name)
        findings.same("dgl-load", f"{where}: the node types", loaded[5], list(metadata.node_types))
        findings.same("dgl-load", f"{where}: the edge types", loaded[6], edge_types)


def check_book(findings: Findings, part: int, output: Output, truth: Truth) -> None:
    """Query the partition book for every ID of a partition. Peak memory: some arrays of these IDs."""
    metadata = truth.metadata
    with findings.check(CHECK):
        book = output.partition_book(part)
        findings.same(CHECK, f"part {part}: partid", book.partid, part)
        findings.same(CHECK, f"part {part}: num_partitions", book.num_partitions(), truth.num_parts)
        counts = book.metadata()[part]
        for key, ranges in (("num_nodes", truth.nodes), ("num_edges", truth.edge_ranges)):
            findings.same(CHECK, f"part {part}: {key}", counts[key], int(ranges.counts[part].sum()))
        nodes = _Questions(book.nid2partid, book.map_to_per_ntype, book.map_to_homo_nid, book.partid2nids)
        edges = _Questions(book.eid2partid, book.map_to_per_etype, book.map_to_homo_eid, book.partid2eids)
        _ask(findings, f"part {part}, nodes", part, nodes, truth.nodes, metadata.node_types)
        edge_types = tuple(edge_type.triple for edge_type in metadata.edge_types)
        _ask(findings, f"part {part}, edges", part, edges, truth.edge_ranges, edge_types)


class _Questions:
    """The methods of a partition book for nodes or for edges, with arrays instead of tensors."""

    def __init__(self, part_of: Any, to_typed: Any, to_homogeneous: Any, of_part: Any) -> None:
        self._methods = (part_of, to_typed, to_homogeneous, of_part)

    def part_of(self, ids: Array, *type_name: Any) -> Array:
        return _array(self._methods[0](_tensor(ids), *type_name))

    def to_typed(self, ids: Array) -> tuple[Array, Array]:
        type_ids, typed = self._methods[1](_tensor(ids))
        return _array(type_ids), _array(typed)

    def to_homogeneous(self, ids: Array, type_name: Any) -> Array:
        return _array(self._methods[2](_tensor(ids), type_name))

    def of_part(self, part: int, type_name: Any) -> Array:
        return _array(self._methods[3](part, type_name))


def _ask(
    findings: Findings, where: str, part: int, book: _Questions, ranges: Ranges, types: tuple[Any, ...]
) -> None:
    for type_id, type_name in enumerate(types):
        new = np.arange(ranges.starts[part, type_id], ranges.ends[part, type_id])
        typed = np.arange(len(new)) + ranges.typed_starts[part, type_id]
        if not len(new):  # DGL's searches fail without IDs
            continue
        parts, what = np.full(len(new), part), f"{where} of {type_name!r}"
        found_types, found_typed = book.to_typed(new)
        for answer, found, expected in (
            ("partition", book.part_of(new), parts),
            ("partition of type-wise IDs", book.part_of(typed, type_name), parts),
            ("type", found_types, np.full(len(new), type_id)),
            ("type-wise ID", found_typed, typed),
            ("homogeneous ID", book.to_homogeneous(typed, type_name), new),
            (
                "type-wise IDs of the partition",
                book.of_part(part, type_name),
                typed if len(types) > 1 else new,
            ),
        ):
            findings.equal(CHECK, f"{what}: {answer}", found, expected, at="ID")


def _tensor(ids: Array) -> Any:
    return import_dgl().backend.tensor(ids)


def _array(tensor: Any) -> Array:
    values: Array = tensor.numpy()
    return values
