"""Measure what a trick saves: the whole job with it and without it, in turns.

    python -m benchmarks.tricks GRAPH NAME [NAME ...] [--pairs 3] [--s3] [--cpus 1]

A trick is code that exists only to take less time or memory. `TRICKS` has a function for each, which takes it
out of the library. Every job runs in a process of its own. Each job without a trick is compared with the
nearest job with all of them. The output has the medians of the ratios: 1.10 means that the job takes a tenth
more without the trick. `COMPILED` tricks change the loops, so these have a cache of their own.
docs/decisions/tricks.md has the results.
"""

from __future__ import annotations

import argparse
import functools
import json
import secrets
import shutil
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from benchmarks.processes import Cost, machine, measure

PARTS = "4"
FIGURES = ("cpu", "wall", "peak", "anonymous")


def _direct() -> None:
    from partition_ops.storage import direct_file

    direct_file.UNBUFFERED = 0


def _direct_file() -> None:
    from partition_ops.storage.local_store import _NewFile
    from partition_ops.storage.store import NewObject

    _NewFile.open = NewObject.open


def _malloc() -> None:
    from partition_ops.system import memory

    memory.reuse_freed_memory = lambda: None


def _nrt() -> None:
    from partition_ops.system import compilation

    compilation.UNCOUNTED.clear()


def _unsigned() -> None:
    from partition_ops.system import compilation

    def plain(number: Any) -> Any:
        return number

    compilation.unsigned = compilation.compiled_inline(plain)


def _parser() -> None:
    from partition_ops.chunked.plain_edges import PlainRows

    PlainRows.__iter__ = lambda self: iter(())


def _garbage() -> None:
    import gc

    gc.set_threshold = lambda *numbers: None


def _exit() -> None:
    from partition_ops import cli

    cli._skip_last_search = lambda: None


def _pages() -> None:
    from partition_ops.system import memory

    memory.mmap = SimpleNamespace()


def _flush() -> None:
    from partition_ops.storage import durability

    durability._sync_file_range = lambda: None


def _volatile() -> None:
    from partition_ops.storage.store import NewObject

    NewObject.volatile = property(lambda self: False, lambda self, value: None)


def _folders() -> None:
    from partition_ops.storage.durability import UnsyncedFolders

    UnsyncedFolders.deferred = lambda self: nullcontext()


def _schemas() -> None:
    from partition_ops.system import json_documents

    class Never(set[bytes]):
        def __contains__(self, item: object) -> bool:
            return False

    json_documents._valid = Never()


def _once() -> None:
    from partition_ops.system import parallel

    parallel.computed_once = functools.cached_property


def _ahead() -> None:
    from partition_ops.system import parallel

    given = parallel.map_in_threads
    parallel.map_in_threads = lambda work, items, *, workers=None, ahead=0: given(
        work, items, workers=workers
    )


def _scratch() -> None:
    from partition_ops.storage import split_store

    @contextmanager
    def given(store: Any, folder: str) -> Iterator[Any]:
        yield store

    split_store.keep_local = given


def _background() -> None:
    from partition_ops.storage.s3_store import S3Store
    from partition_ops.storage.store import Store

    S3Store.background_uploads = Store.background_uploads


def _second_reads() -> None:
    from partition_ops.storage.s3_client import Connection

    Connection.plain = property(lambda self: False)


def _copies() -> None:
    from partition_ops.storage.store import NewObject

    NewObject.keep_copy = property(lambda self: False, lambda self, value: None)


def _requests() -> None:
    from partition_ops.storage import s3_store

    s3_store.WHOLE_BYTES = s3_store.PART_BYTES


def _guard() -> None:
    """Nothing: the command has no ``--memory``, see `arguments`."""


TRICKS: dict[str, Callable[[], None]] = {
    "direct": _direct,
    "direct-file": _direct_file,
    "malloc": _malloc,
    "nrt": _nrt,
    "unsigned": _unsigned,
    "parser": _parser,
    "garbage": _garbage,
    "exit": _exit,
    "pages": _pages,
    "flush": _flush,
    "volatile": _volatile,
    "folders": _folders,
    "schemas": _schemas,
    "once": _once,
    "ahead": _ahead,
    "scratch": _scratch,
    "background": _background,
    "second-reads": _second_reads,
    "copies": _copies,
    "requests": _requests,
    "guard": _guard,
}
COMPILED = ("nrt", "unsigned")


def run(names: Sequence[str], arguments: Sequence[str]) -> int:
    """Run the command line in this process, without some tricks."""
    for name in names:
        TRICKS[name]()
    sys.argv = ["partition-ops", *arguments]
    from partition_ops.cli import main

    return main()


def job(
    graph: str, output: str, without: str, cpus: str, environment: dict[str, str], extra: Sequence[str]
) -> Cost:
    cache = Path(tempfile.gettempdir()) / f"tricks-numba-{without if without in COMPILED else 'all'}"
    command = [sys.executable, "-m", "benchmarks.tricks", "--run", without or "-"]
    pinned = ["taskset", "-c", cpus] if cpus else []
    options = ["run", graph, output, "--num-parts", PARTS, "--json", *extra]
    variables = {**environment, "NUMBA_CACHE_DIR": str(cache)}
    return measure([*pinned, *command, *options], variables)


@contextmanager
def served(graph: Path) -> Iterator[tuple[str, Path, dict[str, str]]]:
    """Serve a copy of the graph on a local S3 server."""
    from local_stack.s3_server import REGION, start_s3_server

    keys = secrets.token_hex(8), secrets.token_hex(16)
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data"
        server, access = start_s3_server(
            data, Path(folder) / "log", access_key=keys[0], secret_key=keys[1], buckets=("bench",)
        )
        try:
            shutil.copytree(graph, data / "bench" / "in")
            yield (
                "s3://bench",
                data / "bench",
                {
                    "AWS_ENDPOINT_URL": access.endpoint_url,
                    "AWS_ACCESS_KEY_ID": keys[0],
                    "AWS_SECRET_ACCESS_KEY": keys[1],
                    "AWS_REGION": REGION,
                },
            )
        finally:
            server.stop()


def compare(args: argparse.Namespace) -> dict[str, Any]:
    """Return, by trick, the ratios of the jobs without it to those with it."""
    found: dict[str, list[dict[str, float]]] = {name: [] for name in args.names}
    base: list[Cost] = []
    with (
        served(args.graph)
        if args.s3
        else nullcontext((str(args.graph.parent), args.graph.parent, {})) as place
    ):
        root, folder, environment = place
        graph = f"{root}/in" if args.s3 else str(args.graph)

        def measured(without: str) -> Cost:
            extra = ["--memory", args.memory] if args.memory and without != "guard" else []
            try:
                cost = job(graph, f"{root}/tricks-out", without, args.cpus, environment, extra)
            finally:
                shutil.rmtree(folder / "tricks-out", ignore_errors=True)
            figures = " ".join(f"{name} {getattr(cost, name):.2f}" for name in FIGURES)
            print(f"{without or 'all tricks'}: {figures}", file=sys.stderr, flush=True)
            return cost

        for name in {*COMPILED} & {*args.names}:
            measured(name)
        for number in range(args.pairs):
            names = args.names if number % 2 == 0 else args.names[::-1]
            for first, second in zip(names[::2], [*names[1::2], None], strict=False):
                before = measured(first)
                base.append(measured(""))
                after = measured(second) if second else None
                for name, cost in ((first, before), (second, after)):
                    if name and cost:
                        found[name].append(ratios(cost, base[-1]))
    return {
        "machine": machine(),
        "all": {name: statistics.median(getattr(cost, name) for cost in base) for name in FIGURES},
        "without": {
            name: {f: statistics.median(one[f] for one in each) for f in FIGURES}
            for name, each in found.items()
        },
        "pairs": found,
    }


def ratios(without: Cost, base: Cost) -> dict[str, float]:
    return {name: round(getattr(without, name) / getattr(base, name), 4) for name in FIGURES}


def main() -> int:
    if sys.argv[1:2] == ["--run"]:
        return run([name for name in sys.argv[2].split(",") if name != "-"], sys.argv[3:])
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("graph", type=Path)
    parser.add_argument(
        "names", nargs="+", help="tricks; several with commas leave together: " + ", ".join(TRICKS)
    )
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--s3", action="store_true", help="from S3 to S3, on a server of this machine")
    parser.add_argument("--cpus", default="", help="processors to use, such as 1; default: all")
    parser.add_argument("--memory", default="", help="bound of the job, for the trick 'guard'")
    print(json.dumps(compare(parser.parse_args()), indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
