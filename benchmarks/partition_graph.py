"""The whole job as DGL does it: load a chunked graph, call ``dgl.distributed.partition_graph``.

    python -m benchmarks.partition_graph GRAPH OUTPUT --num-parts 4 [--loading-only]

What `benchmarks.jobs` measures ours against, in a process of its own. Edges come in through pyarrow on all
cores and features through NumPy: as fast as Python reads them. With a heterogeneous graph, DGL balances the
node types, one METIS constraint each.
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

from partition_ops.dgl_import import import_dgl


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
    """The graph as a ``DGLGraph``, with its node features."""
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


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("graph", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--num-parts", type=int, default=4)
    parser.add_argument("--method", default="metis", choices=["metis", "random"])
    given = parser.parse_args()
    began = time.monotonic()
    loaded = load(given.graph)
    seconds = time.monotonic() - began
    name = json.loads((given.graph / "metadata.json").read_text())["graph_name"]
    dgl = import_dgl()
    dgl.distributed.partition_graph(
        loaded, name, given.num_parts, str(given.output), part_method=given.method
    )
    print(json.dumps({"loading_seconds": seconds, "seconds": time.monotonic() - began}))


if __name__ == "__main__":
    main()
