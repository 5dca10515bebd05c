"""Measure training with DGL on four machines after each way of partitioning: bytes, rows, seconds, accuracy.

    python -m benchmarks.training_traffic [GRAPH …] [--rates 1gbit,200mbit] [--seeds 0,1,2] [--graphbolt]

It needs root and iproute2. `benchmarks.machines` makes four machines of network namespaces, and
`benchmarks.training_session` runs a DGL 1.1.3 server and a trainer on each. The links of each machine are
limited in both directions by a token bucket. The graphs are those in ``benchmarks/real_graphs``, or folders
of graphs in the chunked format, as they are and with a reverse type for each edge type. All nodes have 128
random features. Of the type with the most in-edges, a fifth of the nodes is trained, and another fifth
tested; the label of a node follows from its features and the means of those of its in-neighbours of each
type, by random weights.

The figures are those of an epoch: seconds until all trainers have finished (a median over the epochs), rows
of other partitions that the batches of the slowest trainer read (each once a batch), and bytes that all
interfaces send. Results go to ``benchmarks/results/training_traffic.json`` and ``.md``.

With ``--graphbolt``, DGL 2.1 of ``.ci/install_dgl2`` trains, and its servers sample with GraphBolt, on our
format ``graphbolt`` and on what ``dgl_partition_to_graphbolt`` makes of the files of ``partition_graph``.
Results go to ``benchmarks/results/training_traffic_graphbolt.json`` and ``.md``.

With ``--dilation 4``, four seconds here count as one, and links are four times slower. So each of four
machines that share the cores of one computes as if it had all of them. Results go to
``benchmarks/results/training_traffic_dilated.json`` and ``.md``. Source: Gupta and others, "To infinity and
beyond: time-warped network emulation" (2006).
"""

from __future__ import annotations

import argparse
import json
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.expected_traffic import with_reverses
from benchmarks.machines import network
from benchmarks.processes import machine
from benchmarks.real_graph_sources import FOLDER, KEPT, RealGraph
from benchmarks.real_graphs import RESULTS, write_chunked
from benchmarks.training_session import Host, Session
from partition_ops.chunked.metadata import load_metadata
from partition_ops.stages.quality.charts import bar_chart, picture
from partition_ops.storage import open_store
from partition_ops.verification.input_graph import read_edges

MACHINES, WIDTH, CLASSES, SHARE = 4, 128, 4, 0.2
RATES = ("1gbit", "200mbit")
MOST_SECONDS = 600  # of a session, and of partition_graph, whose METIS may block the process
BASE, CACHED = "partition_graph", "auto, train, 0.1 cached"
DGL2 = Path(".local/dgl2/bin/python")
TO_GRAPHBOLT = "import sys; from dgl.distributed import dgl_partition_to_graphbolt as to; to(sys.argv[1])"
LEAST = 0.001  # a ratio in a geometric mean
Figures = dict[str, Any]


@dataclass(frozen=True)
class Way:
    """A way of partitioning.

    Attributes:
        name: Its name in the results.
        options: Options of ``partition-ops run``, or of `benchmarks.partition_graph`.
        ours: Whether ``partition-ops`` partitions.
    """

    name: str
    options: tuple[str, ...]
    ours: bool = True

    def partition(self, graph: Path, output: Path, seed: int, *, graphbolt: bool = False) -> Path:
        """Write the partitions, for GraphBolt if it trains; return the partition config.

        Raises:
            subprocess.SubprocessError: It failed.
        """
        if self.ours:
            command = ["partition_ops.cli", "run", *self.options, "--seed", str(seed)]
            command += ["--formats", "graphbolt"] if graphbolt else []
        else:
            command = ["benchmarks.partition_graph", *self.options]
        run([sys.executable, "-m", *command, str(graph), str(output), "--num-parts", str(MACHINES)], output)
        if self.ours:
            return output / ("formats/graphbolt" if graphbolt else "partitions") / "real.json"
        config = output / "real.json"
        if graphbolt:
            run([str(DGL2), "-c", TO_GRAPHBOLT, str(config)], output)
        return config


@dataclass(frozen=True)
class Setting:
    """How all partitions are trained on.

    Attributes:
        rates: Rates of the links.
        graphbolt: Whether GraphBolt's servers of DGL 2.1 sample.
        dilation: Seconds here that count as one.
    """

    rates: tuple[str, ...] = RATES
    graphbolt: bool = False
    dilation: float = 1

    @property
    def command(self) -> str:
        """The command that measures with this setting."""
        options = " --graphbolt" if self.graphbolt else ""
        options += f" --dilation {self.dilation:g}" if self.dilation != 1 else ""
        return f"python -m benchmarks.training_traffic{options}"

    def path(self, folder: Path) -> Path:
        """Return the file of the results."""
        name = "training_traffic" + "_graphbolt" * self.graphbolt + "_dilated" * (self.dilation != 1)
        return folder / f"{name}.json"


def run(command: list[str], output: Path) -> None:
    """Run a command, with its messages in a file beside an output.

    Raises:
        subprocess.SubprocessError: It failed, or took longer than `MOST_SECONDS`.
    """
    with output.with_suffix(".log").open("a") as log:
        subprocess.run(command, check=True, stdout=log, stderr=subprocess.STDOUT, timeout=MOST_SECONDS)


WAYS = (
    Way("auto, train", ("--objective", "train", "--cache-share", "0.1")),
    Way("auto, cut", ("--objective", "cut")),
    Way("metis", ("--engine", "metis")),
    Way(BASE, (), ours=False),
    Way(f"{BASE}, balance_edges", ("--balance-edges",), ours=False),
    Way("random", ("--engine", "random")),
)


def load(name: str) -> RealGraph:
    """Return a graph of ``benchmarks/real_graphs``, or that of a folder in the chunked format."""
    if name in KEPT:
        return RealGraph.load(FOLDER / f"{name}.xz")
    source = open_store(name)
    metadata = load_metadata(source)
    nodes = dict(zip(metadata.node_types, metadata.num_nodes, strict=True))
    edges = {
        str(one): np.column_stack(read_edges(source, metadata, number)).astype(np.int64)
        for number, one in enumerate(metadata.edge_types)
    }
    return RealGraph(Path(name).name, "a folder", nodes, edges)


def write(graph: RealGraph, folder: Path, seed: int) -> str:
    """Write a graph with features, masks and labels; return the type that is trained."""
    write_chunked(graph, folder)
    random = np.random.default_rng(seed)
    in_edges = dict.fromkeys(graph.nodes, 0)
    for name, pairs in graph.edges.items():
        in_edges[name.rsplit(":", 1)[1]] += len(pairs)
    trained = max(in_edges, key=lambda name: in_edges[name])
    features = {
        name: random.standard_normal((count, WIDTH), np.float32) for name, count in graph.nodes.items()
    }
    split = random.random(graph.nodes[trained])
    masks = {"train_mask": split < SHARE, "test_mask": split >= 1 - SHARE}
    values = {name: {"feat": rows} for name, rows in features.items()}
    values[trained] |= {"label": labels(graph, trained, features, random), **masks}
    path = folder / "metadata.json"
    document = json.loads(path.read_text())
    for number, (name, arrays) in enumerate(values.items()):
        document["node_data"][name] = {}
        for key, rows in arrays.items():
            np.save(folder / f"{number}-{key}.npy", rows)
            spec = {"format": {"name": "numpy"}, "data": [f"{number}-{key}.npy"]}
            document["node_data"][name][key] = spec
    path.write_text(json.dumps(document))
    return trained


def labels(
    graph: RealGraph, trained: str, features: dict[str, npt.NDArray[np.float32]], random: np.random.Generator
) -> npt.NDArray[np.int64]:
    """Return the label of each node: the class with the highest sum of weighted features and means."""
    scores = features[trained] @ random.standard_normal((WIDTH, CLASSES))
    for name, pairs in graph.edges.items():
        source, _, target = name.split(":")
        if target == trained:
            degrees = np.bincount(pairs[:, 1], minlength=len(scores))
            votes = features[source] @ random.standard_normal((WIDTH, CLASSES))
            for label in range(CLASSES):
                sums = np.bincount(pairs[:, 1], votes[pairs[:, 0], label], minlength=len(scores))
                scores[:, label] += sums / np.maximum(degrees, 1)
    found: npt.NDArray[np.int64] = scores.argmax(axis=1)
    return found


def summary(trainers: list[Figures], number: int) -> Figures:
    """Return the figures of an epoch, from those of the trainers with one of the readers."""
    readers = [trainer["readers"][number] for trainer in trainers]
    by_rate: dict[str, list[list[Figures]]] = {
        rate: [one["phases"][rate] for one in readers] for rate in readers[0]["phases"]
    }

    def mean(key: str) -> list[float]:
        """Return the mean over all epochs of each trainer."""
        epochs = ([epoch for phases in by_rate.values() for epoch in phases[i]] for i in range(len(readers)))
        return [statistics.mean(epoch[key] for epoch in one) for one in epochs]

    return {
        "accuracy": readers[0]["accuracy"],
        "seeds": [one["seeds"] for one in trainers],
        "steps": trainers[0]["steps"],
        "epochs": len(next(iter(by_rate.values()))[0]),
        "rows": mean("remote_rows"),
        "sent_bytes": mean("sent_bytes"),
        "received_bytes": mean("received_bytes"),
        "trainer_processor_seconds": sum(mean("processor_seconds")),
        "seconds": {
            rate: statistics.median(epoch["seconds"] for epoch in phases[0])
            for rate, phases in by_rate.items()
        },
    }


def compare(
    graph: RealGraph, seed: int, host: Host, ways: Sequence[Way] = WAYS, setting: Setting = Setting()
) -> Figures:
    """Return the figures of each way on a graph."""
    with tempfile.TemporaryDirectory() as temporary, network(MACHINES) as machines:
        folder = Path(temporary)
        trained = write(graph, folder / "graph", seed)
        row: Figures = {"graph": graph.name, "trained": trained, "seed": seed, "ways": {}}
        for number, way in enumerate(ways):
            try:
                output = folder / f"out{number}"
                config = way.partition(folder / "graph", output, seed, graphbolt=setting.graphbolt)
                cache = str(output) if "--cache-share" in way.options else ""
                files = str(config), "real", trained, CLASSES, setting.rates, cache
                how = {"graphbolt": setting.graphbolt, "dilation": setting.dilation}
                session = Session(machines.name, MACHINES, *files, **how)
                trainers = host.run(session, folder / f"session{number}", MOST_SECONDS)
            except (subprocess.SubprocessError, RuntimeError) as error:
                print(f"{graph.name}: {way.name} failed: {error}", file=sys.stderr)
                continue
            names = [way.name, CACHED] if cache else [way.name]
            row["ways"] |= {name: summary(trainers, number) for number, name in enumerate(names)}
        print(json.dumps(row), flush=True)
    return row


def add(rows: list[Figures], row: Figures) -> None:
    """Add a row, or its ways to the row of the same graph and seed."""
    for other in rows:
        if (other["graph"], other["seed"]) == (row["graph"], row["seed"]):
            other["ways"] |= row["ways"]
            return
    rows.append(row)


def ratios(rows: list[Figures], way: str, figure: Callable[[Figures], float]) -> list[float]:
    """Return a figure of a way over that of ``partition_graph``, for each row that has both."""
    both = [row["ways"] for row in rows if way in row["ways"] and BASE in row["ways"]]
    return [figure(ways[way]) / figure(ways[BASE]) for ways in both if figure(ways[BASE])]


def mean_ratio(rows: list[Figures], way: str, figure: Callable[[Figures], float]) -> float | None:
    """Return the geometric mean of `ratios`, with a least value for ways that read nothing."""
    found = [max(value, LEAST) for value in ratios(rows, way, figure)]
    return statistics.geometric_mean(found) if found else None


def slowest_rows(figures: Figures) -> float:
    return float(max(figures["rows"]))


def epoch_seconds(rate: str, figures: Figures) -> float:
    return float(figures["seconds"].get(rate, 0.0))


def mebibytes(figures: Figures) -> float:
    return float(sum(figures["sent_bytes"])) / 2**20


def page(rows: list[Figures], setting: Setting) -> str:
    """Return the results as Markdown."""
    rates = setting.rates
    ordered = WAYS[0].name, CACHED, *(way.name for way in WAYS[1:])
    names = [name for name in ordered if any(name in row["ways"] for row in rows)]
    columns = [*map(seconds_at, rates), "graphs and seeds"]
    lines = [
        f"`{setting.command}`: over `{BASE}`, geometric means of the graphs and"
        " seeds that have both, and how many these are.",
        "",
        f"| partitions | rows of the slowest trainer (worst) | MiB sent | {' | '.join(columns)} |",
        "|---|---:|---:|" + "---:|" * len(columns),
    ]
    for name in names:
        found = ratios(rows, name, slowest_rows)
        if found:
            figures = [mebibytes, *(partial(epoch_seconds, rate) for rate in rates)]
            means = [f"{mean_ratio(rows, name, figure) or 0:.2f}" for figure in figures]
            first = f"{mean_ratio(rows, name, slowest_rows) or 0:.2f} ({max(found):.2f})"
            lines.append(f"| {' | '.join([name, first, *means, str(len(found))])} |")
    head = [
        "graph",
        "trained",
        "partitions",
        "rows of the slowest",
        "MiB sent",
        *map(seconds_at, rates),
        "accuracy",
    ]
    lines += [
        "",
        "Medians of the seeds:",
        "",
        f"| {' | '.join(head)} |",
        "|---|---|---|" + "---:|" * (len(head) - 3),
    ]
    for graph in dict.fromkeys(row["graph"] for row in rows):
        seeds = [row for row in rows if row["graph"] == graph]
        for name in names:
            ways = [row["ways"][name] for row in seeds if name in row["ways"]]
            if ways:
                lines.append(f"| {' | '.join([graph, seeds[0]['trained'], name, *cells(ways, rates)])} |")
    return "\n".join(lines) + "\n"


def cells(ways: list[Figures], rates: Sequence[str]) -> list[str]:
    """Return the medians of a way's figures with several seeds, as text."""

    def median(figure: Callable[[Figures], float]) -> float:
        return statistics.median(map(figure, ways))

    seconds = [
        f"{median(lambda one, rate=rate: one['seconds'][rate]):.2f}" if rate in ways[0]["seconds"] else ""
        for rate in rates
    ]
    accuracy = median(lambda one: one["accuracy"])
    return [f"{median(slowest_rows):,.0f}", f"{median(mebibytes):.2f}", *seconds, f"{accuracy:.3f}"]


def seconds_at(rate: str) -> str:
    return f"seconds an epoch, {rate}"


def chart(rows: list[Figures]) -> str:
    """Return a picture of the rows of the slowest trainer, as SVG."""
    names = [WAYS[0].name, CACHED, *(way.name for way in WAYS[1:])]
    means = {name: mean_ratio(rows, name, slowest_rows) for name in names}
    bars = {name: value for name, value in means.items() if value is not None}
    label = f"Rows of other partitions that the slowest trainer fetches, over {BASE}"
    return picture(bar_chart(bars, "{:.2f}".format, f"over {BASE}", label))


def write_results(folder: Path, setting: Setting, rows: list[Figures]) -> None:
    """Write the results as JSON, Markdown and a picture."""
    path, head = setting.path(folder), {"rates": setting.rates, "dilation": setting.dilation}
    path.write_text(json.dumps({"machine": machine(), **head, "rows": rows}, indent=1) + "\n")
    path.with_suffix(".md").write_text(page(rows, setting))
    path.with_suffix(".svg").write_text(chart(rows))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("graphs", nargs="*", metavar="GRAPH", help=f"default: all of {', '.join(KEPT)}")
    parser.add_argument("--no-reverses", action="store_true", help="leave out the graphs with reverse types")
    parser.add_argument("--rates", type=lambda text: tuple(text.split(",")), default=RATES)
    parser.add_argument("--seeds", type=lambda text: [*map(int, text.split(","))], default=[0])
    parser.add_argument("--ways", type=lambda text: text.split(";"), help="some of the ways, joined by ;")
    parser.add_argument("--dilation", type=float, default=1, help="seconds here that count as one")
    parser.add_argument("--graphbolt", action="store_true", help="train with GraphBolt's servers of DGL 2.1")
    parser.add_argument("--add", action="store_true", help="add to the results that are there")
    parser.add_argument("--output", type=Path, default=RESULTS)
    args = parser.parse_args()
    ways = tuple(way for way in WAYS if args.ways is None or way.name in args.ways)
    if args.graphbolt and not DGL2.exists():
        parser.error(f"--graphbolt needs {DGL2}, which .ci/install_dgl2 makes")
    setting = Setting(args.rates, args.graphbolt, args.dilation)
    path = setting.path(args.output)
    rows = json.loads(path.read_text())["rows"] if args.add and path.exists() else []
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # removes the network
    host = Host(str(DGL2.absolute())) if args.graphbolt else Host()
    try:
        for seed in args.seeds:
            for name in args.graphs or KEPT:
                graph = load(name)
                for one in [graph] if args.no_reverses else [graph, with_reverses(graph)]:
                    add(rows, compare(one, seed, host, ways, setting))
                    write_results(args.output, setting, rows)
    finally:
        host.close()


if __name__ == "__main__":
    main()
