"""Checks of the files that describe the whole output: schema, assignment, configuration, ranges."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from partition_ops.artifacts import layout
from partition_ops.chunked.metadata import GraphMetadata
from partition_ops.storage import Store
from partition_ops.verification.input import Ids, id_dtype
from partition_ops.verification.output import Array, Output
from partition_ops.verification.report import Findings
from partition_ops.verification.truth import Ranges, Truth

PART_FILES = {"part_graph": "graph.dgl", "node_feats": "node_feat.dgl", "edge_feats": "edge_feat.dgl"}


def check_schema(findings: Findings, store: Store, metadata: GraphMetadata) -> None:
    with findings.check("schema"):
        document = store.read_json(layout.schema_file(metadata.graph_name))
        edge_types = [str(edge_type) for edge_type in metadata.edge_types]
        for key, names, counts in (
            ("nid", list(metadata.node_types), metadata.num_nodes),
            ("eid", edge_types, metadata.num_edges),
        ):
            ends = np.cumsum(counts).tolist()
            expected = {n: [end - c, end] for n, end, c in zip(names, ends, counts, strict=True)}
            findings.same("schema", key, document[key], expected)
            findings.same("schema", f"the order of {key}", list(document[key]), names)


def read_assignment(
    findings: Findings, output: Output, metadata: GraphMetadata
) -> tuple[int, list[Ids]] | None:
    """Return the number of partitions, and the partition of every node by node type ID; None if unusable."""
    found: list[Ids] = []
    with findings.check("assignment"):
        meta = output.store.read_json(f"{layout.ASSIGNMENT}/{layout.ASSIGNMENT_META}")
        num_parts = meta["num_parts"]
        if not findings.same("assignment", "the type of num_parts", type(num_parts), int):
            return None
        for node_type, count in zip(metadata.node_types, metadata.num_nodes, strict=True):
            parts = output.assigned(node_type)
            if _is_assignment(findings, node_type, parts, count, num_parts):
                found.append(parts.astype(id_dtype(num_parts)))
            findings.equal(
                "assignment", f"the binary copy of {node_type!r}", output.assigned_binary(node_type), parts
            )
    return (num_parts, found) if len(found) == len(metadata.node_types) else None


def _is_assignment(findings: Findings, node_type: str, parts: Array, count: int, num_parts: int) -> bool:
    where = f"{layout.assignment_text(node_type)!r}"
    if not findings.same("assignment", f"the number of lines of {where}", len(parts), count):
        return False
    wrong = np.flatnonzero((parts < 0) | (parts >= num_parts))
    if len(wrong):
        line = int(wrong[0])
        findings.fail("assignment", f"line {line + 1} of {where} is {parts[line]}, of {num_parts} partitions")
    return not len(wrong)


def read_config(findings: Findings, output: Output) -> dict[str, Any] | None:
    """Return ``partitions/<graph>.json``, or None if there is no such JSON object."""
    with findings.check("configuration"):
        config = output.store.read_json(layout.partition_config(output.graph_name))
        if findings.same("configuration", "its type", type(config), dict):
            return dict(config)
    return None


def read_conversion(findings: Findings, store: Store) -> tuple[int, tuple[str, ...]]:
    """Return hops of the halos and sparse formats from the manifest or the record of ``convert``."""
    with findings.check("configuration"):
        if store.exists(layout.MANIFEST):
            options = store.read_json(layout.MANIFEST)["options"]["convert-config"]
        else:
            options = store.read_json(layout.record("convert-config"))["options"]
        return int(options["num_hops"]), tuple(options["graph_formats"])
    return 1, ("coo",)


def check_config(findings: Findings, output: Output, config: dict[str, Any], truth: Truth) -> None:
    metadata = truth.metadata
    expected = {
        "graph_name": metadata.graph_name,
        "num_nodes": sum(metadata.num_nodes),
        "num_edges": truth.edge_ranges.total,
        "num_parts": truth.num_parts,
        "halo_hops": truth.num_hops,
        "ntypes": {name: index for index, name in enumerate(metadata.node_types)},
        "etypes": {str(name): index for index, name in enumerate(metadata.edge_types)},
    }
    with findings.check("configuration"):
        for key, value in expected.items():
            findings.same("configuration", key, config.get(key), value)
        findings.same("configuration", "the type of part_method", type(config.get("part_method")), str)
        named = sorted(key for key in config if re.fullmatch(r"part-\d+", key))
        findings.same(
            "configuration",
            "the list of partitions",
            named,
            sorted(f"part-{p}" for p in range(truth.num_parts)),
        )
        for part in range(truth.num_parts):
            files = {key: f"part{part}/{name}" for key, name in PART_FILES.items()}
            findings.same("configuration", f"part-{part}", config.get(f"part-{part}"), files)
        found = {entry.key for entry in output.store.list(f"{layout.PARTITIONS}/part")}
        allowed = {f"{layout.PARTITIONS}/part{part}" for part in range(truth.num_parts)}
        extra = sorted(key for key in found if key.rpartition("/")[0] not in allowed)
        findings.same("configuration", "the list of files of other partitions", extra, [])


def check_ranges(findings: Findings, config: dict[str, Any], truth: Truth) -> None:
    edge_types = [str(edge_type) for edge_type in truth.metadata.edge_types]
    for name, key, types, ranges in (
        ("node-ranges", "node_map", list(truth.metadata.node_types), truth.nodes),
        ("edge-ranges", "edge_map", edge_types, truth.edge_ranges),
    ):
        with findings.check(name):
            if findings.same(name, f"the list of types in {key}", sorted(config[key]), sorted(types)):
                _check_map(findings, name, key, config[key], types, ranges)


def _check_map(
    findings: Findings, name: str, key: str, found: dict[str, Any], types: list[str], ranges: Ranges
) -> None:
    """Check that each range begins at the end of the range before it, in the order of the ID space."""
    end = 0
    for part in range(len(ranges.counts)):
        for type_id, type_name in enumerate(types):
            where = f"{key}[{type_name!r}][{part}]"
            start, stop = found[type_name][part]
            if start != end:
                findings.fail(name, f"{where} begins at {start}, but the range before it ends at {end}")
            expected = int(ranges.counts[part, type_id])
            findings.same(name, f"the length of {where} = [{start}, {stop}]", stop - start, expected)
            end = stop
    findings.same(name, f"the end of {key}", end, ranges.total)
    lengths = {type_name: len(found[type_name]) for type_name in types}
    findings.same(name, f"lengths of {key}", lengths, dict.fromkeys(types, len(ranges.counts)))
