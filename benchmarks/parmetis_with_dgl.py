"""Build partitions from the text of ``pm_dglpart`` with pyarrow and DGL's partition builder.

    python -m benchmarks.parmetis_with_dgl FOLDER GRAPH WEIGHTS OUTPUT

pyarrow reads the files of all partitions, on all cores, into one table of nodes and one of edges.
``dgl.partition.partition_graph_with_halo``, which ``dgl.distributed.partition_graph`` calls after METIS,
makes the partitions. ``dgl.save_graphs`` writes their ``graph.dgl``. Features, original IDs and the partition
config are not written, and nothing is checked. Prints the number of edges written.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv

from partition_ops.formats.parmetis import text_files as parmetis
from partition_ops.system.dgl_import import import_dgl


def read(folder: Path, name: str, columns: tuple[str, ...]) -> list[pa.Table]:
    """Return the table of each partition."""
    paths = sorted(folder.glob(f"p*-{name}"), key=lambda path: int(path.name[1:].split("-")[0]))
    options = {
        "read_options": pa_csv.ReadOptions(column_names=list(columns)),
        "parse_options": pa_csv.ParseOptions(delimiter=" ", quote_char=False),
    }
    return [pa_csv.read_csv(path, **options) for path in paths]


def build(nodes: list[pa.Table], edges: pa.Table) -> Any:
    """Return the whole graph with original homogeneous IDs, and the partition of every node."""
    import torch

    dgl = import_dgl()
    parts = np.repeat(np.arange(len(nodes)), [table.num_rows for table in nodes])
    table = pa.concat_tables(nodes)
    types, orig = (table[name].to_numpy() for name in ("node_type", "orig_type_node_id"))
    sizes = np.bincount(types)
    ids = (np.cumsum(sizes) - sizes)[types] + orig
    ends = [torch.from_numpy(edges[name].to_numpy()) for name in ("orig_src_id", "orig_dst_id")]
    graph = dgl.graph(tuple(ends), num_nodes=len(ids))
    by_node = torch.empty((2, len(ids)), dtype=torch.int64)
    by_node[:, torch.from_numpy(ids)] = torch.from_numpy(np.stack([parts, types]))
    graph.ndata[dgl.NTYPE] = by_node[1]
    graph.edata[dgl.ETYPE] = torch.from_numpy(edges["edge_type"].to_numpy())
    return graph, by_node[0]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("graph")
    parser.add_argument("weights", type=int)
    parser.add_argument("output", type=Path)
    arguments = parser.parse_args()
    nodes = read(
        arguments.folder, parmetis.nodes_file(arguments.graph), parmetis.part_node_columns(arguments.weights)
    )
    edges = pa.concat_tables(
        read(arguments.folder, parmetis.edges_file(arguments.graph), parmetis.PART_EDGE_COLUMNS)
    )
    graph, parts = build(nodes, edges)
    del nodes, edges
    dgl = import_dgl()
    made, _, _ = dgl.partition.partition_graph_with_halo(graph, parts, 1, reshuffle=True)
    total = 0
    for part, local in made.items():
        path = arguments.output / f"part{part}"
        path.mkdir(parents=True, exist_ok=True)
        dgl.save_graphs(str(path / "graph.dgl"), [local])
        total += int(local.edata["inner_edge"].sum())
    print(total)


if __name__ == "__main__":
    main()
