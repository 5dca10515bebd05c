"""Measure what a trick saves: a process with it and one without it, in turns.

    python -m benchmarks.tricks GRAPH [NAME ...] [--pairs 3] [--s3] [--memory 1G]

A trick is code that exists only to take less time or memory. `TRICKS` has what replaces it.
The output has the medians of processor time (user and system, in seconds), wall time and memory (in bytes)
with and without it. The parser is measured in a process that only reads all edges, files past the page cache
in one that only writes 1.26 GB, and other tricks in a job, which is from S3 to S3 with ``--s3``. The loops
without a trick of `COMPILED` are compiled first. docs/decisions/tricks.md has the results.
"""

from __future__ import annotations

import argparse
import importlib
import json
import secrets
import shutil
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from benchmarks.processes import Cost, machine, measure
from benchmarks.s3_jobs import BUCKET, SOURCE, s3_copy

FIGURES = ("cpu", "wall", "peak", "anonymous")
BLOCKS, BLOCK_BYTES = 240, 5 << 20  # of the file that is written


def _plain(unsigned: Any) -> Any:
    from partition_ops.system.compilation import compiled_inline

    def plain(number: Any) -> Any:
        return number

    return compiled_inline(plain)


# module, name in it, and what replaces it
TRICKS: dict[str, tuple[str, str, Callable[[Any], Any]]] = {
    "direct": ("storage.direct_file", "UNBUFFERED", lambda old: 0),
    "direct-file": ("storage.local_store", "_NewFile.open", lambda old: lambda new: new.path.open("wb")),
    "parser": ("chunked.plain_edges", "PlainRows.__iter__", lambda old: lambda rows: iter(())),
    "pages": ("system.memory", "mmap", lambda old: SimpleNamespace()),
    "uncounted": ("system.compilation", "UNCOUNTED", lambda old: old.clear() or old),
    "unsigned": ("system.compilation", "unsigned", _plain),
    "scratch": ("storage.split_store", "keep_local", lambda old: lambda store, folder: nullcontext(store)),
    "background": (
        "storage.s3_store",
        "S3Store.background_uploads",
        lambda old: lambda store: nullcontext(store),
    ),
    "copies": ("storage.s3_client", "FetchCache.keep", lambda old: lambda cache, key, _: cache.forget(key)),
    "snapshots": ("storage.s3_reader", "S3Reader.snapshot", lambda old: lambda store, **but: nullcontext()),
    "second-reads": ("storage.s3_client", "Connection.plain", lambda old: False),
    "guard": ("", "", lambda old: old),  # the command has no --memory
}
PARTS = {"direct": "write", "direct-file": "write", "parser": "read"}
COMPILED = ("uncounted", "unsigned")
ON_S3 = ("scratch", "background", "copies", "snapshots", "second-reads")


def run(trick: str, part: str, source: str, output: str, more: list[str]) -> int:
    """Run a job, or a part of one, in this process and without a trick."""
    if trick in TRICKS and trick != "guard":
        module, name, replace = TRICKS[trick]
        *parents, name = name.split(".")
        owner: Any = importlib.import_module(f"partition_ops.{module}")
        for parent in parents:
            owner = getattr(owner, parent)
        setattr(owner, name, replace(getattr(owner, name)))
    if part == "job":
        from partition_ops.cli import main

        sys.argv = ["partition-ops", "run", source, output, "--num-parts", "4", "--json", *more]
        return main()
    from partition_ops.chunked.edges import EdgeReader
    from partition_ops.chunked.metadata import load_metadata
    from partition_ops.storage import open_store

    if part == "write":
        block = secrets.token_bytes(BLOCK_BYTES)
        with open_store(output).create("file") as new, new.open() as stream:
            for _ in range(BLOCKS):
                stream.write(block)
        return 0
    importlib.import_module("numba")  # a job imports it anyway
    store = open_store(source)
    reader = EdgeReader(store, load_metadata(store))
    return sum(0 for chunk in reader.chunks() for _ in reader.blocks(chunk))


@contextmanager
def place_of(graph: Path, folder: Path, *, s3: bool) -> Iterator[tuple[str, str, dict[str, str]]]:
    """Yield the graph, the root of outputs, and environment variables; on S3, of a server with a copy."""
    if not s3:
        yield str(graph), str(folder), {}
        return
    with s3_copy(graph, folder) as variables:
        yield SOURCE, f"s3://{BUCKET}", variables


def compare(args: argparse.Namespace) -> dict[str, Any]:
    """Return, by trick and figure, the medians with the trick and without it."""
    found: dict[tuple[str, str], list[float]] = {}
    outputs = count()
    with (
        tempfile.TemporaryDirectory(prefix="tricks-") as folder,
        place_of(args.graph, Path(folder), s3=args.s3) as (source, root, environment),
    ):

        def cost(trick: str, removed: str) -> Cost:
            output = f"out{next(outputs)}"
            memory = ["--memory", args.memory] if args.memory and removed != "guard" else []
            command = ["--run", removed or "-", PARTS.get(trick, "job"), source, f"{root}/{output}", *memory]
            loops = {"NUMBA_CACHE_DIR": f"{folder}/{removed}"} if removed in COMPILED else {}
            one = measure([sys.executable, "-m", "benchmarks.tricks", *command], {**environment, **loops})
            if not args.s3:  # a server may keep what it knows of a file
                shutil.rmtree(Path(folder) / output, ignore_errors=True)
            print(trick, removed and "without", f"{one.cpu:.2f} s", file=sys.stderr, flush=True)
            return one

        for trick in args.names or [name for name in TRICKS if (name in ON_S3) == args.s3]:
            if trick in COMPILED or not found:
                cost(trick, trick)
            turns = [(trick, "") if pair % 2 else ("", trick) for pair in range(args.pairs)]
            costs = [(removed, cost(trick, removed)) for turn in turns for removed in turn]
            for figure in FIGURES:
                each = [[getattr(one, figure) for by, one in costs if by == name] for name in ("", trick)]
                found[trick, figure] = [round(statistics.median(one), 2) for one in each]
    return {"machine": machine(), "with, without": {" ".join(name): pair for name, pair in found.items()}}


def main() -> int:
    if sys.argv[1:2] == ["--run"]:
        trick, part, source, output, *more = sys.argv[2:]
        return run(trick, part, source, output, more)
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("graph", type=Path)
    parser.add_argument("names", nargs="*", help=f"tricks, by default all of the place: {', '.join(TRICKS)}")
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--s3", action="store_true", help="from S3 to S3, on a server of this machine")
    parser.add_argument("--memory", default="", help="bound of the jobs, for the trick 'guard'")
    print(json.dumps(compare(parser.parse_args()), indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
