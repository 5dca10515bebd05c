"""The findings as tables of metrics, a row for each type or feature: what the expectations judge."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from partition_ops.chunked.metadata import Feature, GraphMetadata
from partition_ops.stages.validate.measure import Measurement

Row = dict[str, Any]
Tables = dict[str, list[Row]]
DEGREE_BINS = (0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)


def metrics(metadata: GraphMetadata, found: Measurement) -> Tables:
    """One table each for the graph, its node types, its edge types and its features."""
    features = (*metadata.node_features, *metadata.edge_features)
    return {
        "graph": [_graph_row(metadata, found)],
        "node_types": [_node_row(metadata, found, type_id) for type_id in range(len(metadata.node_types))],
        "edge_types": [_edge_row(metadata, found, type_id) for type_id in range(len(metadata.edge_types))],
        "features": [_feature_row(metadata, found, feature) for feature in features],
    }


def degree_distribution(metadata: GraphMetadata, found: Measurement) -> dict[str, dict[str, Any]]:
    """By node type, how many nodes have an in- or out-degree in each bin."""
    return {
        name: {
            "at_least": list(DEGREE_BINS),
            "in_degree": _binned(found.connectivity.in_degrees[_nodes(metadata, type_id)]),
            "out_degree": _binned(found.connectivity.out_degrees[_nodes(metadata, type_id)]),
        }
        for type_id, name in enumerate(metadata.node_types)
    }


def _binned(degrees: npt.NDArray[np.integer[Any]]) -> list[int]:
    bins = np.searchsorted(DEGREE_BINS, degrees, side="right") - 1
    return [int(count) for count in np.bincount(bins, minlength=len(DEGREE_BINS))]


def _nodes(metadata: GraphMetadata, type_id: int) -> slice:
    return slice(metadata.node_offsets[type_id], metadata.node_offsets[type_id + 1])


def _graph_row(metadata: GraphMetadata, found: Measurement) -> Row:
    nodes = sum(metadata.num_nodes)
    return {
        "name": metadata.graph_name,
        "nodes": nodes,
        "edges": sum(found.edge_rows),
        "parallel_edges": found.parallel,
        "reversed_edges": found.reversed,
        "components": found.components.count,
        "connected_share": _share(found.components.largest, nodes),
    }


def _node_row(metadata: GraphMetadata, found: Measurement, type_id: int) -> Row:
    name, nodes = metadata.node_types[type_id], metadata.num_nodes[type_id]
    in_degrees = found.connectivity.in_degrees[_nodes(metadata, type_id)]
    out_degrees = found.connectivity.out_degrees[_nodes(metadata, type_id)]
    isolated = int(((in_degrees == 0) & (out_degrees == 0)).sum())
    features = [feature for feature in metadata.node_features if feature.type_name == name]
    start, end = metadata.node_offsets[type_id : type_id + 2]
    return {
        "name": name,
        "nodes": nodes,
        "first_id": 0,
        "start": start,
        "end": end,
        "gap_before": start - (metadata.node_offsets[type_id - 1] + metadata.num_nodes[type_id - 1])
        if type_id
        else start,
        "isolated_nodes": isolated,
        "isolated_share": _share(isolated, nodes),
        "max_in_degree": int(in_degrees.max(initial=0)),
        "max_out_degree": int(out_degrees.max(initial=0)),
        "mean_degree": _share(int(in_degrees.sum() + out_degrees.sum()), nodes),
        "features": len(features),
        "nodes_without_features_share": 0.0 if features or not nodes else 1.0,
    }


def _edge_row(metadata: GraphMetadata, found: Measurement, type_id: int) -> Row:
    name, data = str(metadata.edge_types[type_id]), metadata.edges[type_id]
    counts = metadata.num_edges_per_chunk[type_id]
    checks = (
        *("missing_files", "unreadable_files", "wrong_column_rows", "non_integer_rows", "null_ids"),
        *("out_of_range_ids", "duplicate_edges", "self_loop_edges"),
    )
    return {
        "name": name,
        "edges": found.edge_rows[type_id],
        "edges_expected": metadata.num_edges[type_id],
        "files": len(data.files),
        "files_expected": len(data.files) if counts is None else len(counts),
        "wrong_count_files": found.defects.count("wrong_count_files", name),
        **{check: found.defects.count(check, name) for check in checks},
    }


def _feature_row(metadata: GraphMetadata, found: Measurement, feature: Feature) -> Row:
    scan = found.features[feature.key]
    is_node = feature in metadata.node_features
    counts = metadata.num_nodes if is_node else metadata.num_edges
    type_id = (
        metadata.node_type_id(feature.type_name) if is_node else metadata.edge_type_id(feature.type_name)
    )
    defects = found.defects
    return {
        "name": feature.key,
        "dtype": scan.dtype,
        "row_shape": str(list(scan.shape)),
        "rows": scan.rows,
        "rows_expected": counts[type_id],
        "files": len(feature.data.files),
        "files_expected": len(feature.data.files),
        "missing_files": defects.count("missing_files", feature.key),
        "unreadable_files": defects.count("unreadable_files", feature.key),
        "wrong_count_files": defects.count("wrong_count_files", feature.key),
        "layout_mismatches": defects.count("layout_mismatches", feature.key),
        "unsupported_dtype": defects.count("unsupported_dtype", feature.key),
        "nonfinite_values": defects.count("nonfinite_values", feature.key),
        "nonfinite_share": _share(defects.count("nonfinite_values", feature.key), scan.values),
    }


def _share(part: int, whole: int) -> float:
    return round(part / whole, 6) if whole else 0.0
