"""The input of a job, by new IDs: what trainers of another version of DGL compare their graph with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from partition_ops.artifacts.book import read_book
from partition_ops.artifacts.partition_book import PartitionBook
from partition_ops.storage import open_store
from tests.graphs import SmallGraph


def write_expected(graph: SmallGraph, output: str, path: Path) -> None:
    """Write counts, ranges, edges and features of a graph as NumPy arrays, by type-wise new ID."""
    arrays: dict[str, Any] = {"ntypes": np.array([*graph.nodes]), "etypes": np.array([*graph.edges])}
    with open_store(output) as store, PartitionBook(store) as book:
        stored = read_book(store)
        arrays["node_ranges"] = np.array([*stored.node_ranges().values()])
        arrays["edge_ranges"] = np.array([*stored.edge_ranges().values()])
        for name, edges in graph.edges.items():
            src_type, _, dst_type = name.split(":")
            order = book.eid_new2orig(np.arange(len(edges.src)), name)
            src, dst = np.array(edges.src, np.int64)[order], np.array(edges.dst, np.int64)[order]
            arrays[f"src/{name}"] = book.nid_orig2new(src, src_type)
            arrays[f"dst/{name}"] = book.nid_orig2new(dst, dst_type)
        for kind, values, new2orig in (
            ("node", graph.node_values, book.nid_new2orig),
            ("edge", graph.edge_values, book.eid_new2orig),
        ):
            for value in values:
                order = new2orig(np.arange(len(value.array)), value.type_name)
                arrays[f"{kind}_feature/{value.type_name}/{value.name}"] = value.array[order]
    np.savez(path, **arrays)
