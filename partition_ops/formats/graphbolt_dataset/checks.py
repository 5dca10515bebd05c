"""Checks of GraphBolt's data sets for ``verify``. They share no code with what writes them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow.parquet as pq

from partition_ops.artifacts import layout
from partition_ops.artifacts.book import Book
from partition_ops.errors import InvalidInputError
from partition_ops.formats.columns import Array
from partition_ops.formats.findings import Findings
from partition_ops.formats.graphbolt.checks import read_state
from partition_ops.storage import Store

CHECK = "graphbolt-dataset"
CHECKS = {CHECK: "the data set has a graph, features and sets as OnDiskDataset of DGL 2.1 makes them"}
WITH_NEGATIVES = "link_prediction_with_negatives"
METADATA = "preprocessed/metadata.yaml"
KINDS = {
    "train_set": ("train_mask",),
    "validation_set": ("val_mask", "valid_mask"),
    "test_set": ("test_mask",),
}


def load_dataset(output: Store, folder: str, expected: Book) -> dict[str, Array]:
    """Load edges and features by type; see `Format.load_whole`. Peak memory: 40 bytes an edge."""
    (node_type, *_), (edge_type, *_) = expected.node_types, expected.edge_types  # if there is one of each
    metadata = output.read_json(f"{folder}/{METADATA}")
    found: dict[str, Array] = {}
    state = read_state(output, f"{folder}/{metadata['graph_topology']['path']}")
    tensors = state["independent_tensors"]
    indptr, indices = tensors["indptr"].astype(np.int64), tensors["indices"].astype(np.int64)
    ids = state["edge_attributes"]["_ORIGINAL_EDGE_ID"]
    dst = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    if "type_per_edge" in tensors:
        offsets = tensors["node_type_offset"].astype(np.int64)
        begins = {name: offsets[int(i)] for name, i in state["node_type_to_id"].items()}
        for name, type_id in state["edge_type_to_id"].items():
            mine = tensors["type_per_edge"] == int(type_id)
            src_type, _, dst_type = name.split(":")
            ends = (indices[mine] - begins[src_type], dst[mine] - begins[dst_type])
            found |= _edges(name, ids[mine], *ends)
    else:
        found |= _edges(edge_type, ids, indices, dst)
    for entry in metadata["feature_data"]:
        type_name = entry.get("type", node_type if entry["domain"] == "node" else edge_type)
        key = f"{entry['domain']}_features/{type_name}/{entry['name']}"
        found[key] = _load(output, f"{folder}/{entry['path']}")
    return found


def check_dataset(findings: Findings, output: Store, folder: str, expected: Book) -> None:
    """Check the description, the dtypes of the graph, and that the sets are those of the stored masks.

    ``verify`` itself compares edges and features with the input. Peak memory: 40 bytes an edge.
    """
    with findings.check(CHECK):
        metadata = output.read_json(f"{folder}/{METADATA}")
        findings.same(CHECK, "dataset_name", metadata["dataset_name"], expected.graph_name)
        state = read_state(output, f"{folder}/{metadata['graph_topology']['path']}")
        _check_graph(findings, state, expected)
        features = {}
        for entry in metadata["feature_data"]:
            stored = _load(output, f"{folder}/{entry['path']}")
            features[entry["domain"], entry.get("type"), entry["name"]] = stored
            findings.same(CHECK, f"{entry['path']}: enough axes", stored.ndim > 1, True)
        found = set()
        for task in metadata["tasks"]:
            if task["name"] == WITH_NEGATIVES:
                _check_negatives(findings, output, folder, task, features, expected)
                continue
            for kind in KINDS.keys() & task.keys():
                for one in task[kind]:
                    found.add(_check_set(findings, output, folder, kind, one, features, expected))
        masks = {key for key in features if key[2] in [name for names in KINDS.values() for name in names]}
        findings.same(CHECK, "the masks that have sets", sorted(map(str, found)), sorted(map(str, masks)))


def _check_graph(findings: Findings, state: Any, expected: Book) -> None:
    tensors = state["independent_tensors"]
    nodes, edges = expected.num_nodes, expected.num_edges
    node, edge = ("int32" if count <= np.iinfo(np.int32).max else "int64" for count in (nodes, edges))
    wanted = {"version_number": "int64", "indptr": edge, "indices": node}
    if not expected.is_homogeneous:
        small = len(expected.edge_types) <= np.iinfo(np.uint8).max + 1
        wanted |= {"node_type_offset": node, "type_per_edge": "uint8" if small else "int16"}
        offsets = np.cumsum([0, *(sum(expected.node_counts[name]) for name in sorted(expected.node_types))])
        findings.equal(CHECK, "node_type_offset", tensors["node_type_offset"], offsets)
        for key, names in (
            ("node_type_to_id", expected.node_types),
            ("edge_type_to_id", expected.edge_types),
        ):
            ids = {name: int(value) for name, value in state[key].items()}
            findings.same(CHECK, key, ids, {name: i for i, name in enumerate(sorted(names))})
        types, indptr = tensors["type_per_edge"].astype(np.int64), tensors["indptr"]
        smaller = np.setdiff1d(np.flatnonzero(np.diff(types) < 0) + 1, indptr)
        findings.same(CHECK, "edges of a node before edges of a smaller type", len(smaller), 0)
    dtypes = {name: str(tensor.dtype) for name, tensor in tensors.items()}
    findings.same(CHECK, "dtypes of the graph", dtypes, wanted)
    sizes = (len(tensors["indptr"]) - 1, len(tensors["indices"]))
    findings.same(CHECK, "numbers of nodes and edges", sizes, (nodes, edges))


def _check_set(
    findings: Findings, output: Store, folder: str, kind: str, one: Any, features: Any, expected: Book
) -> tuple[str, str | None, str]:
    """Compare a set with the stored mask, and its labels with the stored feature; return the mask's key."""
    files = {entry["name"]: _load(output, f"{folder}/{entry['path']}") for entry in one["data"]}
    domain, type_name = "node" if "seed_nodes" in files else "edge", one.get("type")
    key = next((domain, type_name, name) for name in KINDS[kind] if (domain, type_name, name) in features)
    where = f"{kind} of {type_name or 'the graph'}"
    ids = np.flatnonzero(features[key].any(axis=1))
    wanted: Array = ids
    if domain == "edge":
        edges = load_dataset(output, folder, expected)
        name = type_name or expected.edge_types[0]
        order = np.argsort(edges[f"edges/{name}/id"])
        chosen = order[np.isin(edges[f"edges/{name}/id"][order], ids)]
        ids = edges[f"edges/{name}/id"][chosen]
        wanted = np.stack([edges[f"edges/{name}/{end}"][chosen] for end in ("src", "dst")], axis=1)
        findings.same(CHECK, f"{where}: shape", files["node_pairs"].shape, wanted.shape)
        findings.equal(CHECK, where, files["node_pairs"].ravel(), wanted.ravel())
    else:
        findings.equal(CHECK, where, files["seed_nodes"], wanted)
    if "labels" in files:
        name = next(n for n in ("label", "labels", "y") if (domain, type_name, n) in features)
        rows = features[domain, type_name, name][ids]
        findings.equal(CHECK, f"{where}: labels", files["labels"].ravel(), rows.ravel())
    return key


def _check_negatives(
    findings: Findings, output: Store, folder: str, task: Any, features: Any, expected: Book
) -> None:
    """Check that edges of a part come before its negatives, that the ID maps have, and the labels of both."""
    edges = load_dataset(output, folder, expected)
    for kind in KINDS.keys() & task.keys():
        for one in task[kind]:
            type_name, name = one.get("type"), one.get("type", expected.edge_types[0])
            files = {entry["name"]: _load(output, f"{folder}/{entry['path']}") for entry in one["data"]}
            where = f"{kind} of {name} with negatives"
            order = np.argsort(edges[f"edges/{name}/id"])
            every = np.stack([edges[f"edges/{name}/{end}"][order] for end in ("src", "dst")], axis=1)
            masks = [key for key in features if key[:2] == ("edge", type_name) and key[2].endswith("_mask")]
            mine = next((key for key in masks if key[2] in KINDS[kind]), None)
            inside = np.full(len(every), not masks and kind == "train_set")
            if mine is not None:
                inside = features[mine].any(axis=1)[edges[f"edges/{name}/id"][order]]
            table = pq.read_table(output.local_copy(layout.negative_map(name)))
            negatives = table.filter(table[KINDS[kind][0]])
            pairs = np.stack([negatives[f"{end}_orig_id"].to_numpy() for end in ("src", "dst")], axis=1)
            wanted = np.concatenate([every[inside], pairs])
            findings.same(CHECK, f"{where}: shape", files["node_pairs"].shape, wanted.shape)
            findings.equal(CHECK, where, files["node_pairs"].ravel(), wanted.ravel())
            labels = np.repeat(np.array([1, 0], np.float32), [int(inside.sum()), len(pairs)])
            findings.equal(CHECK, f"{where}: labels", files["labels"], labels)


def _edges(name: str, ids: Array, src: Array, dst: Array) -> dict[str, Array]:
    return {f"edges/{name}/id": ids, f"edges/{name}/src": src, f"edges/{name}/dst": dst}


def _load(output: Store, key: str) -> Array:
    try:
        found: Array = np.load(output.local_copy(key), mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise InvalidInputError(f"{output.uri_of(key)} is not a NumPy file: {error}") from error
    return found
