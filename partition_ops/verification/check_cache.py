"""Checks of the cached rows: that they are the most read ones, with the bits of the input."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from partition_ops.artifacts import layout
from partition_ops.formats.findings import Findings
from partition_ops.storage import Store
from partition_ops.traffic.model import Sampling, TrafficModel
from partition_ops.traffic.sampled_edges import Block, collect_edges
from partition_ops.traffic.train_nodes import read_train_nodes, train_types
from partition_ops.verification.artifact_readers import load_array
from partition_ops.verification.check_features import FeatureChecks
from partition_ops.verification.expected_graph import ExpectedGraph

CHECK = "cached-rows"
Ids = npt.NDArray[np.int64]


def check_cache(
    findings: Findings, source: Store, output: Store, graph: ExpectedGraph, features: FeatureChecks
) -> None:
    """Check ``cache/`` of an output.

    The rows are chosen again, from the model of the traffic and the expected graph.

    Args:
        findings: Takes the failures.
        source: Root of the input graph.
        output: Root of the output.
        graph: The expected graph.
        features: Compares features with those of the input.

    Peak memory: that of `TrafficModel`, 30 bytes a node, and the cached rows of a feature in one partition.
    """
    with findings.check(CHECK):
        found = {entry.key for entry in output.list(f"{layout.CACHE}/")}
        if not output.exists(layout.record("cache")):
            findings.same(CHECK, "files of a cache that no task wrote", sorted(found), [])
            return
        options = output.read_json(layout.record("cache"))["options"]
        expected = set()
        for part, nodes in _most_read(source, graph, options):
            for name, orig in nodes.items():
                expected |= _check_nodes(findings, output, graph, part, name, orig)
                for feature in graph.metadata.node_features:
                    if feature.type_name == name:
                        key = layout.cached_rows(part, name, feature.name)
                        expected.add(key)
                        features.check_one(CHECK, key, feature, load_array(output, key, mmap=True), orig)
        findings.same(CHECK, "the list of files", sorted(found), sorted(expected))


def _most_read(
    source: Store, graph: ExpectedGraph, options: Mapping[str, Any]
) -> Iterator[tuple[int, dict[str, Ids]]]:
    """Yield each partition with train nodes, and the original IDs by type that it should cache."""
    metadata, parts = graph.metadata, np.concatenate(graph.parts).astype(np.int32)
    train = read_train_nodes(source, metadata, train_types(metadata, options["train_nodes"] or ()))
    offsets, type_of = metadata.node_offsets, metadata.node_type_id
    ends = [type_of(one.dst) for one in metadata.edge_types]
    edges = collect_edges(
        offsets[-1],
        [(offsets[dst], metadata.num_nodes[dst]) for dst in ends],
        sum(metadata.num_edges),
        _edges(graph, parts),
    )
    ranges = [(offsets[t], offsets[t + 1], t) for t in range(len(metadata.node_types))]
    sampling = Sampling(tuple(options["fanouts"]), options["batch_size"])
    model = TrafficModel(edges, train, sampling, node_ranges=ranges)
    names = {feature.type_name for feature in metadata.node_features}
    having = np.repeat([name in names for name in metadata.node_types], metadata.num_nodes)
    for part in range(graph.num_parts):
        if not (train & (parts == part)).any():
            continue
        reads = model.reads(parts, part)
        wanted = np.flatnonzero(having & (parts != part) & (reads > 0))
        room = int(options["cache_share"] * int((having & (parts == part)).sum()))
        chosen = np.sort(wanted[np.lexsort((wanted, -reads[wanted]))][:room])
        cuts = np.split(chosen, np.searchsorted(chosen, offsets[1:-1]))
        by_type = zip(metadata.node_types, cuts, offsets, strict=False)
        yield part, {name: ids - first for name, ids, first in by_type if name in names}


def _edges(graph: ExpectedGraph, parts: npt.NDArray[np.int32]) -> Iterator[Block]:
    """Yield the edges of each type that trainers can sample, by homogeneous ID of the input."""
    offsets, type_of = graph.metadata.node_offsets, graph.metadata.node_type_id
    for type_id, (edge_type, ends) in enumerate(zip(graph.metadata.edge_types, graph.edges, strict=True)):
        kept = np.sort(graph.orig_edges[type_id])
        src = ends[0][kept].astype(np.int64) + offsets[type_of(edge_type.src)]
        dst = ends[1][kept].astype(np.int64) + offsets[type_of(edge_type.dst)]
        inside = parts[src] == parts[dst] if graph.num_hops == 0 else np.ones(len(src), np.bool_)
        yield type_id, src[inside], dst[inside]


def _check_nodes(
    findings: Findings, output: Store, graph: ExpectedGraph, part: int, name: str, orig: Ids
) -> set[str]:
    """Check the lists of the cached nodes of a type; return their keys."""
    new = np.argsort(graph.orig_nodes[graph.metadata.node_type_id(name)])[orig]
    lists = {layout.cached_orig_nodes(part, name): orig, layout.cached_nodes(part, name): new}
    for key, ids in lists.items():
        found = load_array(output, key, mmap=True)
        findings.same(CHECK, f"{key}: dtype", str(found.dtype), "int64")
        findings.equal(CHECK, key, found, ids)
    return set(lists)
