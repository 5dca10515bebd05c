"""Checks of the tensor files of one partition: features and original IDs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from partition_ops.chunked.metadata import Feature
from partition_ops.storage import Store
from partition_ops.verification.input import FeatureTable, Ids
from partition_ops.verification.output import Array, Output
from partition_ops.verification.report import Findings
from partition_ops.verification.trainers import expected_trainers, trainers_fit
from partition_ops.verification.truth import Truth

BLOCK = 16 << 20  # bytes of a feature to compare at a time


class Features:
    """The input's features, opened once for all partitions.

    Args:
        source: The input graph's root.
        truth: The expected output.
        scratch: Folder for Parquet and CSV features in a format that can be mapped.
    """

    def __init__(self, source: Store, truth: Truth, scratch: Path) -> None:
        self._source = source
        self._truth = truth
        self._scratch = scratch
        self._tables: dict[str, FeatureTable] = {}

    def check(self, findings: Findings, part: int, output: Output) -> None:
        """Compare the features. Peak memory: one feature file of the partition, and two blocks."""
        metadata, truth = self._truth.metadata, self._truth
        nodes, edges = _ids_by_type(truth, part)
        node_trainers: dict[str, Ids] = {}
        edge_trainers: dict[str, Ids] = {}
        with findings.check("assignment"):
            node_trainers, edge_trainers = expected_trainers(output, truth, part)
            if part == 0 and (wrong := trainers_fit(output, truth)) is not None:
                findings.fail("assignment", wrong)
        for check, file, features, ids, trainers in (
            ("node-features", "node_feat.dgl", metadata.node_features, nodes, node_trainers),
            ("edge-features", "edge_feat.dgl", metadata.edge_features, edges, edge_trainers),
        ):
            with findings.check(check):
                found = output.tensors(part, file)
                keys = sorted([*(feature.key for feature in features), *trainers])
                findings.same(check, f"part {part}: the list of features", sorted(found), keys)
                for feature in features:
                    if feature.key in found:
                        self._check_one(
                            findings, check, part, feature, found[feature.key], ids[feature.type_name]
                        )

                for key in trainers.keys() & found.keys():
                    dtype = str(found[key].dtype)
                    findings.same(check, f"part {part}: dtype of {key!r}", dtype, "int64")
                    findings.equal(check, f"part {part}: {key!r}", found[key], trainers[key])

    def _check_one(
        self, findings: Findings, check: str, part: int, feature: Feature, found: Array, ids: Ids
    ) -> None:
        with findings.check(check):
            table, where = self._table(feature), f"part {part}, {feature.key!r}"
            shape = (len(ids), *(found.shape[1:] if table.shape is None else table.shape))
            good = findings.same(check, f"{where}: shape", found.shape, shape)
            if table.shape is not None:
                good &= findings.same(check, f"{where}: dtype", str(found.dtype), str(table.dtype))
            if good and found.size:
                _check_bits(findings, check, where, found, table, ids)

    def _table(self, feature: Feature) -> FeatureTable:
        if feature.key not in self._tables:
            folder = self._scratch / str(len(self._tables))
            self._tables[feature.key] = FeatureTable(self._source, feature.data, folder)
        return self._tables[feature.key]


def _check_bits(
    findings: Findings, check: str, where: str, found: Array, table: FeatureTable, ids: Ids
) -> None:
    """Compare bit by bit, so that NaN equals itself and -0.0 does not equal 0.0."""
    rows = max(1, BLOCK * len(found) // found.nbytes)
    for start in range(0, len(ids), rows):
        block = slice(start, start + rows)
        expected = table.take(ids[block])
        differ = (_bytes(found[block]) != _bytes(expected)).any(axis=1)
        if differ.any():
            row = int(np.argmax(differ))
            findings.fail(
                check,
                f"{where}: row {start + row} (original ID {ids[start + row]}) is {_row(found[start + row])},"
                f" the input has {_row(expected[row])}",
            )
            return


def _bytes(values: Array) -> Array:
    return np.ascontiguousarray(values).view(np.uint8).reshape(len(values), -1)


def _row(values: Array) -> str:
    return np.array2string(np.asarray(values), threshold=8, edgeitems=2).replace("\n", "")


def check_original_ids(findings: Findings, part: int, output: Output, truth: Truth) -> None:
    with findings.check("original-ids"):
        nodes, edges = _ids_by_type(truth, part)
        _check_ids(findings, part, "orig_nids.dgl", output.tensors(part, "orig_nids.dgl"), nodes)
        _check_ids(findings, part, "orig_eids.dgl", output.tensors(part, "orig_eids.dgl"), edges)


def _ids_by_type(truth: Truth, part: int) -> tuple[dict[str, Ids], dict[str, Ids]]:
    """Return the original IDs in a partition by new ID, by name of the node type and of the edge type."""
    node_types, edge_types = truth.metadata.node_types, truth.metadata.edge_types
    nodes = {name: truth.nodes_of(part, type_id) for type_id, name in enumerate(node_types)}
    edges = {str(name): truth.edges_of(part, type_id) for type_id, name in enumerate(edge_types)}
    return nodes, edges


def _check_ids(
    findings: Findings, part: int, file: str, found: Mapping[str, Array], expected: Mapping[str, Ids]
) -> None:
    where = f"part {part}, {file}"
    findings.same("original-ids", f"{where}: the list of types", sorted(found), sorted(expected))
    for name, ids in expected.items():
        if name in found:
            findings.same("original-ids", f"{where}: dtype of {name!r}", str(found[name].dtype), "int64")
            findings.equal("original-ids", f"{where}: {name!r}", found[name], ids)
