"""Compare edge cuts of `auto`, `metis`, DGL's ``partition_graph`` and KaMinPar on real graphs.

    python -m benchmarks.real_graphs [GRAPH …] [--parts 2,4,8,16,64] [--seeds 3] [--repository CLONE]

`benchmarks.real_graph_sources` has the graphs. Every partitioner has one constraint for each node type,
except KaMinPar, which has one constraint only and runs on graphs of one type. DGL's result is the assignment
that ``partition_graph`` computes, without the files that it writes. KaMinPar's preset is *strong*, in one
thread. All have the tolerance 1.03. The cut is the share of edges of the symmetric graph, a median over the
seeds.

The imbalance is the largest number of nodes of a type in a partition over its share. The tolerance is 1.03 or
one node over the share. The lightest partition is the smallest number of nodes over the share. A result with
empty partitions does not count for the ratio. Results go to
``benchmarks/results/real_graphs.json`` and ``.md``.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.partitioning import kaminpar
from benchmarks.processes import machine
from benchmarks.real_graph_sources import FOLDER, KEPT, RealGraph, all_graphs, builders
from partition_ops.artifacts import layout
from partition_ops.chunked.metadata import load_metadata
from partition_ops.errors import PartitionOpsError
from partition_ops.stages.partition.engine import find_engine
from partition_ops.stages.partition.multilevel.tuning import METIS_TOLERANCE
from partition_ops.stages.partition.options import PartitionConfig
from partition_ops.stages.partition.problem import Problem
from partition_ops.stages.prepare.options import PrepareConfig
from partition_ops.stages.prepare.prepare import prepare_graph
from partition_ops.storage import open_store
from partition_ops.system.dgl_import import import_dgl

RESULTS = Path(__file__).parent / "results"
PARTS = (2, 4, 8, 16, 64)
OURS, DGL, BOUND = "auto", "partition_graph", "kaminpar"
OTHERS = ("metis", DGL)
Figures = dict[str, Any]


def write_chunked(graph: RealGraph, folder: Path) -> Path:
    """Write a graph as Parquet in DGL's chunked format."""
    (folder / "edges").mkdir(parents=True)
    document: Figures = {
        "graph_name": "real",
        "node_type": list(graph.nodes),
        "num_nodes_per_chunk": [[count] for count in graph.nodes.values()],
        "edge_type": list(graph.edges),
        "num_edges_per_chunk": [[len(pairs)] for pairs in graph.edges.values()],
        "edges": {},
        "node_data": {},
        "edge_data": {},
    }
    for number, (name, pairs) in enumerate(graph.edges.items()):
        key = f"edges/{number}.parquet"
        pq.write_table(pa.table({"src": pairs[:, 0], "dst": pairs[:, 1]}), folder / key)
        document["edges"][name] = {"format": {"name": "parquet"}, "data": [key]}
    (folder / "metadata.json").write_text(json.dumps(document))
    return folder


def partition_with_dgl(folder: Path, parts: list[int]) -> None:
    """Write the assignments that ``dgl.distributed.partition_graph`` computes, by homogeneous ID."""
    import torch

    dgl = import_dgl()
    metadata = load_metadata(open_store(str(folder / "graph")))
    edges = {}
    for number, edge_type in enumerate(metadata.edge_types):
        table = pq.read_table(folder / "graph" / f"edges/{number}.parquet")
        columns = tuple(torch.tensor(column.to_numpy()) for column in table.columns)
        edges[tuple(str(edge_type).split(":"))] = columns
    graph = dgl.heterograph(edges, dict(zip(metadata.node_types, metadata.num_nodes, strict=True)))
    whole = dgl.to_homogeneous(graph)
    types = None if graph.is_homogeneous else whole.ndata[dgl.NTYPE]
    for num_parts in parts:
        began = time.monotonic()
        found = dgl.metis_partition_assignment(whole, num_parts, types).numpy().astype(np.int32)
        seconds = time.monotonic() - began
        ends = np.cumsum([graph.num_nodes(node_type) for node_type in graph.ntypes])  # DGL sorts the types
        by_type = dict(zip(graph.ntypes, np.split(found, ends[:-1]), strict=True))
        ordered = np.concatenate([by_type[node_type] for node_type in metadata.node_types])
        np.savez(folder / f"dgl-{num_parts}.npz", parts=ordered, seconds=seconds)


def assignment(name: str, folder: Path, num_parts: int, seed: int) -> npt.NDArray[np.int32]:
    """Return the partition of each node."""
    if name == BOUND:
        return kaminpar(folder / "run" / layout.PREPARED_GRAPH, "strong", 1, num_parts, seed)
    return find_engine(name).partition(problem_of(folder, num_parts, seed))


def problem_of(folder: Path, num_parts: int, seed: int = 0) -> Problem:
    source, run = open_store(str(folder / "graph")), open_store(str(folder / "run"))
    return Problem(PartitionConfig(num_parts=num_parts, seed=seed), load_metadata(source), run, source)


def measured(name: str, folder: Path, num_parts: int, seed: int) -> Figures | None:
    """Return the figures of a partitioner; None if it failed, or for further seeds of DGL, which has none."""
    if name == DGL:
        path = folder / f"dgl-{num_parts}.npz"
        if seed or not path.exists():
            return None
        with np.load(path) as found:
            return {"seconds": float(found["seconds"]), **look(folder, found["parts"], num_parts)}
    began = time.monotonic()
    try:
        parts = assignment(name, folder, num_parts, seed)
    except PartitionOpsError as error:
        print(f"{name} failed with {num_parts} partitions: {error}", file=sys.stderr)
        return None
    return {"seconds": time.monotonic() - began, **look(folder, parts, num_parts)}


def look(folder: Path, parts: npt.NDArray[np.int32], num_parts: int) -> Figures:
    """Return cut, imbalance and the lightest partition."""
    problem = problem_of(folder, num_parts)
    rows = np.repeat(np.arange(problem.graph.num_nodes), np.diff(problem.graph.offsets))
    cut = float((parts[rows] != parts[problem.graph.neighbours]).mean())
    classes = int(problem.classes.max()) + 1
    cells = parts.astype(np.int64) * classes + problem.classes
    counts = np.bincount(cells, minlength=num_parts * classes).reshape(num_parts, -1)
    shares = counts.sum(axis=0) / num_parts
    sizes = counts.sum(axis=1)
    return {
        "edge_cut": cut,
        "imbalance": float((counts.max(axis=0) / shares).max()),
        "over": bool((counts > np.maximum(shares * METIS_TOLERANCE, shares + 1)).any()),
        "lightest": float(sizes.min() * num_parts / sizes.sum()),
        "empty": int((sizes == 0).sum()),
    }


def compare(graph: RealGraph, parts: list[int], seeds: int, names: list[str]) -> list[Figures]:
    """Partition one graph with every partitioner; return the figures of each number of partitions."""
    found = []
    begin = [sys.executable, "-m", "benchmarks.real_graphs", "--dgl", ",".join(map(str, parts))]
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        write_chunked(graph, folder / "graph")
        prepare_graph(PrepareConfig(), open_store(str(folder / "graph")), open_store(str(folder / "run")))
        if DGL in names:
            subprocess.run([*begin, str(folder)], stdout=subprocess.DEVNULL)  # METIS may end the process
        for num_parts in parts:
            row: Figures = {
                "graph": graph.name,
                "kind": graph.kind,
                "types": len(graph.nodes),
                "parts": num_parts,
            }
            row |= {"nodes": sum(graph.nodes.values()), "edges": sum(map(len, graph.edges.values()))}
            for name in names:
                if name == BOUND and len(graph.nodes) > 1:
                    continue
                runs = [run for seed in range(seeds) if (run := measured(name, folder, num_parts, seed))]
                if runs:
                    row[name] = summary(runs)
            print(json.dumps(row), flush=True)
            found.append(row)
    return found


def summary(runs: list[Figures]) -> Figures:
    """Return medians of cut and seconds, their spread, and the worst of all other figures."""
    cuts = [run["edge_cut"] for run in runs]
    median = statistics.median(cuts)
    return {
        "edge_cut": median,
        "spread": (max(cuts) - min(cuts)) / median if median else 0.0,
        "seconds": statistics.median(run["seconds"] for run in runs),
        "imbalance": max(run["imbalance"] for run in runs),
        "over": any(run["over"] for run in runs),
        "lightest": min(run["lightest"] for run in runs),
        "empty": max(run["empty"] for run in runs),
    }


def ratio(row: Figures, others: tuple[str, ...]) -> float | None:
    """Return our cut over the best of the others, or None if there are no others.

    Results with empty partitions do not count: they have fewer partitions than asked for.
    """
    cuts = [row[name]["edge_cut"] for name in others if name in row and not row[name]["empty"]]
    return row[OURS]["edge_cut"] / max(min(cuts), 1e-9) if cuts else None


def _cut(found: Figures) -> str:
    return f"{found['edge_cut']:.2%}" + (f", {found['empty']} empty" if found["empty"] else "")


def page(rows: list[Figures], seeds: int) -> str:
    """Return the results as Markdown."""
    best = [value for row in rows if (value := ratio(row, OTHERS)) is not None]
    bound = [value for row in rows if (value := ratio(row, (BOUND,))) is not None]
    mean = statistics.geometric_mean(best) if best else float("nan")
    lines = [
        f"`python -m benchmarks.real_graphs --seeds {seeds}`: `auto` over the best of `metis` and"
        f" `partition_graph`: {mean:.3f} in the geometric mean of {len(best)} cases, worst"
        f" {max(best, default=0):.3f}, above 1 in {sum(value > 1 for value in best)}."
        + (
            f" Over KaMinPar strong: mean {statistics.geometric_mean(bound):.3f}, worst {max(bound):.3f}."
            if bound
            else ""
        )
        + f" Over the tolerance: {sum(row[OURS]['over'] for row in rows)} cases; with an empty partition:"
        f" {sum(row[OURS]['empty'] > 0 for row in rows)}; spread between seeds: at most"
        f" {max(row[OURS]['spread'] for row in rows):.1%}.",
        "",
        "| graph | nodes | edges | parts | auto | metis | partition_graph | KaMinPar | ratio | spread"
        " | imbalance | lightest | seconds: auto | metis | partition_graph |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for row in rows:
        ours, value = row[OURS], ratio(row, OTHERS)
        cuts = [_cut(row[name]) if name in row else "" for name in (OURS, *OTHERS, BOUND)]
        seconds = [f"{row[name]['seconds']:.1f}" if name in row else "" for name in (OURS, *OTHERS)]
        cells = [row["graph"], f"{row['nodes']:,}", f"{row['edges']:,}", str(row["parts"]), *cuts]
        cells += ["" if value is None else f"{value:.3f}", f"{ours['spread']:.1%}"]
        cells += [f"{ours['imbalance']:.3f}", f"{ours['lightest']:.2f}", *seconds]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    if sys.argv[1:2] == ["--dgl"]:
        partition_with_dgl(Path(sys.argv[3]), [int(one) for one in sys.argv[2].split(",")])
        return
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = list(builders(Path()))
    parser.add_argument("graphs", nargs="*", metavar="GRAPH", help=f"default: all of {', '.join(names)}")
    parser.add_argument(
        "--parts", type=lambda text: [int(one) for one in text.split(",")], default=list(PARTS)
    )
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--with", dest="partitioners", default=",".join((OURS, *OTHERS, BOUND)))
    parser.add_argument("--repository", type=Path, help="clone whose history `--keep` reads")
    parser.add_argument("--keep", action="store_true", help="write the kept graphs anew, and nothing else")
    parser.add_argument("--output", type=Path, default=RESULTS)
    args = parser.parse_args()
    if args.keep:
        for name in args.graphs or KEPT:
            builders(args.repository)[name]().save(FOLDER / f"{name}.xz")
        return
    rows = []
    for graph in all_graphs(args.graphs or names):
        rows += compare(graph, args.parts, args.seeds, args.partitioners.split(","))
    args.output.mkdir(parents=True, exist_ok=True)
    results = {"machine": machine(), "seeds": args.seeds, "rows": rows}
    (args.output / "real_graphs.json").write_text(json.dumps(results, indent=1) + "\n")
    (args.output / "real_graphs.md").write_text(page(rows, args.seeds))
    print(page(rows, args.seeds), end="")


if __name__ == "__main__":
    main()
