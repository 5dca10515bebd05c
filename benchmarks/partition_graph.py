"""Run the whole job with DGL: load a chunked graph, call ``dgl.distributed.partition_graph``.

    python -m benchmarks.partition_graph GRAPH OUTPUT --num-parts 4
    python -m benchmarks.partition_graph GRAPH OUTPUT --look        the edge cut and balance of OUTPUT

`benchmarks.jobs` compares ours with it, in its own process. pyarrow reads edges on all cores, and NumPy reads
features. With a heterogeneous graph, DGL balances the node types, one METIS constraint each.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from partition_ops.system.dgl_import import import_dgl


def read_edges(graph: Path, data: dict[str, Any]) -> pa.Table:
    """All edges of a type."""
    if data["format"]["name"] == "parquet":
        return pa.concat_tables([pq.read_table(graph / name) for name in data["data"]])
    parse = pa_csv.ParseOptions(delimiter=data["format"]["delimiter"])
    options = pa_csv.ReadOptions(column_names=["src", "dst"])
    return pa.concat_tables([pa_csv.read_csv(graph / name, options, parse) for name in data["data"]])


def read_rows(graph: Path, data: dict[str, Any]) -> Any:
    """A whole feature."""
    if data["format"]["name"] == "numpy":
        return np.concatenate([np.load(graph / name) for name in data["data"]])
    tables = pa.concat_tables([pq.read_table(graph / name) for name in data["data"]])
    column = tables.column(0).combine_chunks()
    values = column.flatten() if pa.types.is_fixed_size_list(column.type) else column
    rows = values.to_numpy(zero_copy_only=False)
    return rows.reshape(len(column), -1) if pa.types.is_fixed_size_list(column.type) else rows


def load(graph: Path) -> Any:
    """Return the graph as a ``DGLGraph`` with its node features."""
    import torch

    dgl = import_dgl()
    metadata = json.loads((graph / "metadata.json").read_text())
    edges = {}
    for name, data in metadata["edges"].items():
        columns = read_edges(graph, data).columns
        edges[tuple(name.split(":"))] = tuple(torch.from_numpy(column.to_numpy()) for column in columns)
    counts = {
        name: sum(chunks)
        for name, chunks in zip(metadata["node_type"], metadata["num_nodes_per_chunk"], strict=True)
    }
    loaded = dgl.heterograph(edges, counts)
    for name, features in metadata["node_data"].items():
        for feature, data in features.items():
            loaded.nodes[name].data[feature] = torch.from_numpy(read_rows(graph, data))
    return loaded


def look(graph: Path, output: Path) -> dict[str, float]:
    """Return the share of cut edges, and the largest share of a node type relative to an even one."""
    dgl = import_dgl()
    metadata = json.loads((graph / "metadata.json").read_text())
    config = json.loads((output / f"{metadata['graph_name']}.json").read_text())
    edges = cut = 0
    nodes = np.zeros((config["num_parts"], len(metadata["node_type"])))
    for part in range(config["num_parts"]):
        (local,), _ = dgl.load_graphs(str(output / config[f"part-{part}"]["part_graph"]))
        inner = local.ndata["inner_node"].bool()
        owned = local.edata["inner_edge"].bool()
        edges += int(owned.sum())
        cut += int((owned & ~inner[local.edges()[0]]).sum())
        nodes[part] = np.bincount(local.ndata["_TYPE"][inner].numpy(), minlength=nodes.shape[1])
    return {
        "edge_cut": cut / edges,
        "imbalance": float((nodes.max(axis=0) * len(nodes) / nodes.sum(axis=0)).max()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("graph", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--num-parts", type=int, default=4)
    parser.add_argument("--method", default="metis", choices=["metis", "random"])
    parser.add_argument("--balance-edges", action="store_true")
    parser.add_argument("--look", action="store_true")
    args = parser.parse_args()
    if args.look:
        print(json.dumps(look(args.graph, args.output)))
        return
    began = time.monotonic()
    loaded = load(args.graph)
    seconds = time.monotonic() - began
    name = json.loads((args.graph / "metadata.json").read_text())["graph_name"]
    dgl = import_dgl()
    options = {"part_method": args.method, "balance_edges": args.balance_edges}
    dgl.distributed.partition_graph(loaded, name, args.num_parts, str(args.output), **options)
    print(json.dumps({"loading_seconds": seconds, "seconds": time.monotonic() - began}))


if __name__ == "__main__":
    main()
