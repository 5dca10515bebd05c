"""A model of ten and a hundred billion edges on 16 and 128 machines, from what was measured on a few.

    python -m benchmarks.many_machines [--output PATH] [--chart FILE]

Nothing of that size was run. Memory is what the declarations of cost say, as `partition-ops estimate
--workers` prints it, for files of the right size without content. Time and traffic of ``partition`` follow
a model with four constants, fitted to `benchmarks.weak_scaling` (``benchmarks/results/weak_scaling.json``),
in which a rank works on its half-edges and on an entry for each node:

- a rank's processor time is a times its half-edges, and b times the nodes of the graph
- the ranks send s bytes for each node to each other rank, and c bytes for each half-edge altogether

The results go to ``benchmarks/results/many_machines.json`` and ``.md``, and
``docs/images/many_machines.svg``.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.charts import panels
from benchmarks.mag_graph import NODES
from benchmarks.processes import report
from partition_ops.jobs.estimate.workers import WorkersEstimate, estimate_workers
from partition_ops.jobs.options import RunConfig
from partition_ops.storage.local_store import LocalStore

RESULTS = Path(__file__).parent / "results"
CHART = Path(__file__).parents[1] / "docs/images/many_machines.svg"
EDGE_FILE_BYTES = 8  # an edge, of Parquet in `benchmarks.large_graph`
FILE_EDGES = 10**8
LINK = 1.25e9  # bytes a second: 10 Gbit/s
NODE_BYTES, HALF_EDGE_BYTES = 28, 4  # of a rank, see `partition_ops.stages.partition.mpi.two_level_rank`
GIB = 1 << 30


@dataclass(frozen=True)
class Case:
    """A graph without features, and the machines."""

    nodes: int
    edges: int
    machines: int
    parts: int

    @property
    def name(self) -> str:
        return f"{self.edges / 1e9:g} billion edges, {self.nodes / 1e9:g} billion nodes"


CASES = (Case(10**9, 10**10, 16, 64), Case(2 * 10**9, 10**11, 128, 512))


@dataclass(frozen=True)
class Model:
    """The constants of the model.

    Attributes:
        half_edge: Seconds of processor time for each half-edge of a rank.
        node: Seconds of processor time of each rank for each node of the graph.
        sent_node: Bytes that are sent for each node to each other rank.
        sent_half_edge: Bytes that are sent for each half-edge.
    """

    half_edge: float
    node: float
    sent_node: float
    sent_half_edge: float

    def seconds(self, nodes: float, half_edges: float, ranks: int) -> float:
        """Return the processor time of one rank."""
        return self.half_edge * half_edges / ranks + self.node * nodes

    def sent(self, nodes: float, half_edges: float, ranks: int) -> float:
        """Return the bytes that one rank sends."""
        return (self.sent_node * nodes * (ranks - 1) + self.sent_half_edge * half_edges) / ranks


def fitted(measured: list[dict[str, Any]], nodes_of_rank: int) -> Model:
    """Return the model that fits the figures of `benchmarks.weak_scaling` best."""
    ranks = np.array([one["ranks"] for one in measured], np.float64)
    half_edges = np.array([one["half_edges"] for one in measured], np.float64)
    nodes = nodes_of_rank * ranks

    def fit(name: str, of_nodes: Any) -> tuple[float, float]:
        values = np.array([one[name] for one in measured], np.float64)
        sides = np.stack([half_edges, of_nodes], axis=1) / half_edges[:, None]
        found, *_ = np.linalg.lstsq(sides, values / half_edges, rcond=None)
        return float(found[0]), float(found[1])

    half_edge, node = fit("processor", nodes * ranks)
    sent_half_edge, sent_node = fit("sent", nodes * (ranks - 1))
    return Model(half_edge, node, sent_node, sent_half_edge)


def needs(case: Case) -> WorkersEstimate:
    """Return what each task and rank takes; a machine has two cores."""
    with tempfile.TemporaryDirectory() as name:
        folder, files = Path(name), -(-case.edges // FILE_EDGES)
        for number in range(files):
            with (folder / f"{number}.parquet").open("wb") as stream:
                stream.truncate(FILE_EDGES * EDGE_FILE_BYTES)
        document = {
            "graph_name": "many",
            "node_type": ["a", "b"],
            "num_nodes_per_chunk": [[case.nodes // 2], [case.nodes - case.nodes // 2]],
            "edge_type": ["a:to:b"],
            "num_edges_per_chunk": [[case.edges // files] * files],
            "edges": {
                "a:to:b": {
                    "format": {"name": "parquet"},
                    "data": [f"{number}.parquet" for number in range(files)],
                }
            },
        }
        (folder / "metadata.json").write_text(json.dumps(document))
        config, where = RunConfig(num_parts=case.parts, engine="two-level"), LocalStore(folder)
        plenty = estimate_workers(config, where, workers=case.machines, memory=256 * GIB, cores=2)
        least = plenty.least_memory  # with which some tasks take less
        return estimate_workers(config, where, workers=case.machines, memory=least, cores=2)


def figures(case: Case, model: Model) -> dict[str, Any]:
    """Return the memory, time and traffic of a case."""
    estimate, half_edges = needs(case), 2 * case.edges
    return {
        **asdict(case),
        "tasks": {
            task.name if task.name.startswith(stage.stage) else f"{stage.stage}, {task.name}": {
                "number": task.number,
                "held": task.held,
                "mapped": task.mapped,
            }
            for stage in estimate.stages
            for task in stage.tasks
        },
        "least_memory": estimate.least_memory,
        "seconds": model.seconds(case.nodes, half_edges, case.machines),
        "seconds_of_nodes": model.node * case.nodes,
        "sent": model.sent(case.nodes, half_edges, case.machines),
    }


def page(results: dict[str, Any]) -> str:
    """Return the results as Markdown."""
    model, cases = results["model"], results["cases"]
    lines = [
        "`python -m benchmarks.many_machines`. **Nothing of this size was run.** Memory is what"
        " `partition-ops estimate --workers` says; time and traffic of `partition` are extrapolated from"
        " [1, 2 and 4 ranks](weak_scaling.md):",
        "",
        f"- processor time of a rank: {model['half_edge'] * 1e9:.0f} ns for each of its half-edges, and"
        f" {model['node'] * 1e9:.0f} ns for each node of the graph",
        f"- sent: {model['sent_node']:.0f} bytes for each node to each other rank, and"
        f" {model['sent_half_edge']:.1f} for each half-edge",
        "",
        "| ranks | half-edges, million | processor ns a half-edge: measured | by the model"
        " | sent, bytes a half-edge: measured | by the model |",
        "|---:|---:|---:|---:|---:|---:|",
    ]
    for one in results["measured"]:
        count, ranks = one["half_edges"], one["ranks"]
        made, nodes = Model(**model), results["nodes_of_rank"] * ranks
        lines.append(
            f"| {ranks} | {count / 1e6:.0f} | {one['processor'] / count * 1e9:.0f}"
            f" | {made.seconds(nodes, count, ranks) * ranks / count * 1e9:.0f}"
            f" | {one['sent'] / count:.1f} | {made.sent(nodes, count, ranks) * ranks / count:.1f} |"
        )
    titles = [case.name for case in CASES]
    rows = {
        "machines, and ranks": [str(one["machines"]) for one in cases],
        "partitions": [str(one["parts"]) for one in cases],
        "**`partition`** (model)": [""] * len(cases),
        "processor minutes of a rank": [f"{one['seconds'] / 60:.0f}" for one in cases],
        "of these, for the entries of all nodes": [f"{one['seconds_of_nodes'] / 60:.0f}" for one in cases],
        "GB that a rank sends": [f"{one['sent'] / 1e9:.0f}" for one in cases],
        "minutes of that at 10 Gbit/s": [f"{one['sent'] / LINK / 60:.1f}" for one in cases],
        "**GiB that the largest task or rank holds** (estimate)": [""] * len(cases),
    }
    for task in cases[0]["tasks"]:
        held = [one["tasks"][task] for one in cases]
        if max(each["held"] for each in held) >= GIB:
            rows[task] = [f"{each['held'] / GIB:.1f}" for each in held]
    rows["a machine needs, without mapped files"] = [f"{one['least_memory'] / GIB:.0f}" for one in cases]
    mapped = [one["tasks"]["partition, rank"]["mapped"] for one in cases]
    rows["and a rank maps"] = [f"{each / GIB:.1f}" for each in mapped]
    lines += ["", "| | " + " | ".join(titles) + " |", "|---|" + "---:|" * len(cases)]
    lines += [f"| {title} | " + " | ".join(values) + " |" for title, values in rows.items()]
    return "\n".join(lines) + "\n"


def chart(results: dict[str, Any], path: Path) -> None:
    """Draw processor time and memory of a rank against the number of ranks, measured and extrapolated."""
    from matplotlib.ticker import ScalarFormatter

    model, measured = Model(**results["model"]), results["measured"]
    ranks = [one["ranks"] for one in measured]
    points: dict[str, Any] = {"marker": "o", "linestyle": "", "color": "black"}
    points["label"] = "measured, 8 million edges a rank"
    titles = ("processor time of a rank, minutes", "memory of a rank with mapped files, GiB")
    with panels(path, dict.fromkeys(titles, "machines, one rank each"), (9, 3.4)) as axes:
        times, sizes = axes
        times.plot(ranks, [one["processor"] / one["ranks"] / 60 for one in measured], **points)
        sizes.plot(ranks, [one["peak"] / GIB for one in measured], **points)
        numbers = [2**power for power in range(10)]
        for case, colour in zip(CASES, ("#1f6feb", "#9aa5b1"), strict=True):
            count, label = 2 * case.edges, f"{case.edges / 1e9:g} billion edges, extrapolated"
            seconds = [model.seconds(case.nodes, count, number) for number in numbers]
            held = [NODE_BYTES * case.nodes + HALF_EDGE_BYTES * count / number for number in numbers]
            for axis, values, unit in ((times, seconds, 60), (sizes, held, GIB)):
                drawn = [value / unit for value in values]
                axis.plot(numbers, drawn, color=colour, linestyle="--", label=label)
                axis.axvline(case.machines, color=colour, linewidth=0.6)
        for axis in axes:
            axis.set_yscale("log")
            axis.set_xscale("log", base=2)
            axis.xaxis.set_major_formatter(ScalarFormatter())
            axis.legend(frameon=False, fontsize=7, loc="center right", bbox_to_anchor=(1, 0.3))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output", type=Path, default=RESULTS / "many_machines", help="without suffix")
    parser.add_argument("--chart", type=Path, default=CHART)
    args = parser.parse_args()
    weak = json.loads((RESULTS / "weak_scaling.json").read_text())
    nodes_of_rank = int(sum(NODES.values()) * weak["scale"])
    model = fitted(weak["rows"], nodes_of_rank)
    results = {
        "model": asdict(model),
        "nodes_of_rank": nodes_of_rank,
        "measured": weak["rows"],
        "cases": [figures(case, model) for case in CASES],
    }
    chart(results, args.chart)
    report(results, page(results), args.output)


if __name__ == "__main__":
    main()
