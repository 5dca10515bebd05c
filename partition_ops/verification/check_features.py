"""Checks of the features and original IDs of a partition, in the columns that an output format loads."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from partition_ops.chunked.metadata import Feature
from partition_ops.formats.columns import in_group
from partition_ops.formats.findings import Findings
from partition_ops.formats.format import Format
from partition_ops.storage import Store
from partition_ops.verification.artifact_readers import Array, read_trainers, trainers_per_machine
from partition_ops.verification.expected_graph import ExpectedGraph
from partition_ops.verification.input_graph import FeatureTable, Ids

BLOCK = 16 << 20  # bytes of a feature that are compared at a time


class FeatureChecks:
    """Checks of features; the features of the input are opened once for all partitions and formats.

    Args:
        findings: Takes the failures.
        source: Root of the input graph.
        output: Root of the output.
        graph: The expected graph.
        scratch: Folder for Parquet and CSV features in a form that can be mapped.
    """

    def __init__(
        self, findings: Findings, source: Store, output: Store, graph: ExpectedGraph, scratch: Path
    ) -> None:
        self._findings = findings
        self._source = source
        self._output = output
        self._graph = graph
        self._scratch = scratch
        self._tables: dict[str, FeatureTable] = {}

    def check(self, form: Format, part: int) -> None:
        """Check all features of a partition. Peak memory: its node or edge features, and two blocks."""
        metadata, where = self._graph.metadata, f"{form.name}, part {part}"
        nodes, edges = _ids_by_type(self._graph, part)
        node_trainers: Mapping[str, Ids] = {}
        edge_trainers: Mapping[str, Ids] = {}
        with self._findings.check("assignment"):
            node_trainers, edge_trainers = _expected_trainers(self._output, self._graph, part)
        for check, features, ids, trainers in (
            ("node-features", metadata.node_features, nodes, node_trainers),
            ("edge-features", metadata.edge_features, edges, edge_trainers),
        ):
            with self._findings.check(check):
                found = _load(form, self._output, part, check.replace("-", "_"))
                keys = sorted([*(feature.key for feature in features), *trainers])
                self._findings.same(check, f"{where}: the list of features", sorted(found), keys)
                for feature in features:
                    if feature.key in found:
                        values = found[feature.key]
                        if form.has_matrices:
                            values = self._without_axis(feature, values)
                        self.check_one(check, where, feature, values, ids[feature.type_name])
                for key in trainers.keys() & found.keys():
                    dtype = str(found[key].dtype)
                    self._findings.same(check, f"{where}: dtype of {key!r}", dtype, "int64")
                    self._findings.equal(check, f"{where}: {key!r}", found[key], trainers[key])

    def check_whole(self, where: str, columns: Mapping[str, Array]) -> None:
        """Check all features of a format that has the whole graph, by original ID."""
        metadata = self._graph.metadata
        counts = dict(zip(metadata.node_types, metadata.num_nodes, strict=True))
        counts |= dict(zip(map(str, metadata.edge_types), metadata.num_edges, strict=True))
        for check, features in (
            ("node-features", metadata.node_features),
            ("edge-features", metadata.edge_features),
        ):
            with self._findings.check(check):
                found = in_group(columns, check.replace("-", "_"))
                keys = sorted(feature.key for feature in features)
                self._findings.same(check, f"{where}: the list of features", sorted(found), keys)
                for feature in features:
                    table = self._table(feature)
                    values = self._without_axis(feature, found[feature.key])
                    if str(table.dtype) in ("uint16", "uint32") and values.dtype.kind == "i":
                        narrow = values.astype(table.dtype)  # torch has no unsigned dtypes
                        values = narrow if (narrow == values).all() else values
                    self.check_one(check, where, feature, values, np.arange(counts[feature.type_name]))

    def _without_axis(self, feature: Feature, values: Array) -> Array:
        """Return the rows of a feature without the axis that a format has added to single numbers."""
        return values[:, 0] if self._table(feature).shape == () and values.shape[1:] == (1,) else values

    def check_trainers(self) -> None:
        """Check that the trainer of every node is on the machine of its partition."""
        with self._findings.check("assignment"):
            count = trainers_per_machine(self._output)
            for type_id, name in enumerate(self._graph.metadata.node_types if count > 1 else ()):
                machines = read_trainers(self._output, name) // count
                wrong = np.flatnonzero(machines != self._graph.parts[type_id])
                if len(wrong):
                    detail = f"node {wrong[0]} of type {name!r} has a trainer of another partition"
                    self._findings.fail("assignment", detail)

    def check_one(self, check: str, part: str, feature: Feature, found: Array, ids: Ids) -> None:
        """Compare rows with those of some original IDs in the input; ``part`` says where they are."""
        with self._findings.check(check):
            table, where = self._table(feature), f"{part}, {feature.key!r}"
            if table.is_boolean and found.dtype == np.bool_:  # a format may also store booleans as uint8
                found = found.view(np.uint8)
            shape = (len(ids), *(found.shape[1:] if table.shape is None else table.shape))
            good = self._findings.same(check, f"{where}: shape", found.shape, shape)
            if table.shape is not None:
                good &= self._findings.same(check, f"{where}: dtype", str(found.dtype), str(table.dtype))
            if good and found.size:
                self._check_bits(check, where, found, table, ids)

    def _check_bits(self, check: str, where: str, found: Array, table: FeatureTable, ids: Ids) -> None:
        """Compare bit by bit, so that NaN equals itself and -0.0 does not equal 0.0."""
        rows = max(1, BLOCK * len(found) // found.nbytes)
        for start in range(0, len(ids), rows):
            block = slice(start, start + rows)
            expected = table.take(ids[block])
            differ = (_bytes(found[block]) != _bytes(expected)).any(axis=1)
            if differ.any():
                row = int(np.argmax(differ))
                self._findings.fail(
                    check,
                    f"{where}: row {start + row} (original ID {ids[start + row]}) is"
                    f" {_text(found[start + row])}, the input has {_text(expected[row])}",
                )
                return

    def _table(self, feature: Feature) -> FeatureTable:
        if feature.key not in self._tables:
            folder = self._scratch / str(len(self._tables))
            self._tables[feature.key] = FeatureTable(self._source, feature.data, folder)
        return self._tables[feature.key]


def check_original_ids(
    findings: Findings, form: Format, output: Store, part: int, graph: ExpectedGraph
) -> None:
    """Check the original IDs of inner nodes and own edges by type."""
    for group, expected in zip(("node_orig_ids", "edge_orig_ids"), _ids_by_type(graph, part), strict=True):
        with findings.check("original-ids"):
            found, where = _load(form, output, part, group), f"{form.name}, part {part}, {group}"
            findings.same("original-ids", f"{where}: the list of types", sorted(found), sorted(expected))
            for name in expected.keys() & found.keys():
                dtype = str(found[name].dtype)
                findings.same("original-ids", f"{where}: dtype of {name!r}", dtype, "int64")
                findings.equal("original-ids", f"{where}: {name!r}", found[name], expected[name])


def _load(form: Format, output: Store, part: int, group: str) -> dict[str, Array]:
    """Load a group of columns, by their names inside it."""
    return in_group(form.load(output, part, [group]), group)


def _ids_by_type(graph: ExpectedGraph, part: int) -> tuple[dict[str, Ids], dict[str, Ids]]:
    """Return original IDs in a partition, by new ID, by name of the node type and of the edge type."""
    node_types, edge_types = graph.metadata.node_types, graph.metadata.edge_types
    nodes = {name: graph.nodes_of(part, type_id) for type_id, name in enumerate(node_types)}
    edges = {str(name): graph.edges_of(part, type_id) for type_id, name in enumerate(edge_types)}
    return nodes, edges


def _expected_trainers(
    output: Store, graph: ExpectedGraph, part: int
) -> tuple[Mapping[str, Ids], Mapping[str, Ids]]:
    """Return ``trainer_id`` of a partition's nodes and edges by feature key; none with one trainer a machine.

    It follows from ``assignment/trainers/`` as in ``dgl.distributed.partition_graph``: the trainer of an edge
    is that of its destination.
    """
    if trainers_per_machine(output) == 1:
        return {}, {}
    metadata = graph.metadata
    trainers = {name: read_trainers(output, name) for name in metadata.node_types}
    nodes = {
        f"{name}/trainer_id": trainers[name][graph.nodes_of(part, type_id)]
        for type_id, name in enumerate(metadata.node_types)
    }
    edges = {
        f"{edge_type}/trainer_id": trainers[edge_type.dst][
            graph.edges[type_id][1][graph.edges_of(part, type_id)]
        ]
        for type_id, edge_type in enumerate(metadata.edge_types)
    }
    return nodes, edges


def _bytes(values: Array) -> Array:
    return np.ascontiguousarray(values).view(np.uint8).reshape(len(values), -1)


def _text(values: Array) -> str:
    return np.array2string(np.asarray(values), threshold=8, edgeitems=2).replace("\n", "")
