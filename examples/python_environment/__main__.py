"""``python -m examples.python_environment OUTPUT_DIR``, from the root of the repository."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from examples.python_environment.build import build_graph, parse_environment
from examples.python_environment.discover import discover, installation_folders
from examples.python_environment.grow import keep_ids, previous_classes
from examples.python_environment.tables import Graph
from examples.python_environment.write import may_replace, write_graph
from partition_ops.system.progress import terminal_progress


def main(arguments: Sequence[str] | None = None) -> int:
    """Build the graph and return the exit code."""
    options = _parser().parse_args(arguments)
    mistake = _mistake(options)
    if mistake:
        print(mistake, file=sys.stderr)
        return 2
    began = time.monotonic()
    try:
        environment = discover(options.site_packages or installation_folders(), options.packages)
    except LookupError as error:
        print(error, file=sys.stderr)
        return 2
    progress = terminal_progress()
    modules = parse_environment(environment, options.workers, progress)
    if not modules:
        print("No Python modules found. Name their folder with --site-packages.", file=sys.stderr)
        return 1
    classes = previous_classes(options.previous) if options.previous else None
    graph = build_graph(environment, modules, seed=options.seed, classes=classes, progress=progress)
    if options.previous:
        graph = keep_ids(graph, options.previous)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    write_graph(graph, options.output, chunks=options.chunks, progress=progress)
    print(_summary(graph, len(environment.files) - len(modules), time.monotonic() - began))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m examples.python_environment",
        description="Turn a Python environment into a heterogeneous graph in DGL's chunked format.",
    )
    parser.add_argument(
        "output",
        type=Path,
        metavar="OUTPUT_DIR",
        help="folder of the graph; an earlier graph there is replaced",
    )
    parser.add_argument(
        "--workers",
        type=_positive,
        default=_cores(),
        help="number of processes that parse files (default: one for each core)",
    )
    parser.add_argument(
        "--site-packages",
        type=Path,
        nargs="+",
        metavar="DIR",
        help="folders to read instead of this interpreter's",
    )
    parser.add_argument(
        "--packages",
        nargs="+",
        default=(),
        metavar="NAME",
        help="distributions to read, for a smaller graph (default: all)",
    )
    parser.add_argument("--chunks", type=_positive, default=4, help="files of each type (default: 4)")
    parser.add_argument(
        "--seed", type=int, default=0, help="seed of the split into training, validation and test set"
    )
    parser.add_argument(
        "--previous", type=Path, metavar="DIR", help="an earlier graph whose node IDs are kept"
    )
    return parser


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is less than 1")
    return number


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _mistake(options: argparse.Namespace) -> str:
    for folder in options.site_packages or ():
        if not folder.is_dir():
            return f"{folder} is no folder."
    if options.previous and not (options.previous / "names" / "label.parquet").is_file():
        return f"{options.previous} is not a graph of this program: names/label.parquet is missing."
    if not may_replace(options.output):
        return f"{options.output} is not a graph of this program, and is not replaced."
    return ""


def _summary(graph: Graph, skipped: int, seconds: float) -> str:
    rows = [(name, len(table.names)) for name, table in graph.nodes.items()]
    rows += [("all nodes", sum(count for _, count in rows))]
    edge_rows = [(name, len(table.src)) for name, table in graph.edges.items()]
    rows += [*edge_rows, ("all edges", sum(count for _, count in edge_rows))]
    rows += [(f"call sites {outcome}", count) for outcome, count in graph.calls.items()]
    rows += [("files skipped, because they cannot be parsed", skipped)]
    lines = [f"{name:<42}{count:>12,}" for name, count in rows]
    return "\n".join([*lines, f"{'seconds':<42}{seconds:>12.1f}"])


if __name__ == "__main__":
    sys.exit(main())
