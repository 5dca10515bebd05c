"""Kills: a run is killed at random moments, some several times, and repeated; then bytes are compared."""

from __future__ import annotations

import random
import signal
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from partition_ops.chunked.metadata import METADATA
from partition_ops.storage import Store, open_store, s3_conditions
from tests.campaign.commands import Command, succeed
from tests.campaign.frame import BUCKET, Attempt, Case, Defect, Verdict, s3_environment, s3_server
from tests.graphs import Edges, SmallGraph, library
from tests.integration.test_killed import content
from tests.integration.test_own_roots import write_tables
from tests.mpi import MISSING
from tests.uploads import upload_folder

TABLES, FORMATS = "tables", "all formats"
ALL_FORMATS = "dgl,graphbolt,graphbolt-dataset,graphstorm,pyg"
KILLS = (1, 2, 3, 5, 8)  # kills before a run may end; each one kills the repetition of the last
DOCS = 0.01  # share of the attempts with Data Docs, which take most of the time of a run
SEARCHED_NODES, SEARCHED_EDGES = 20_000, 200_000
ORPHAN_SECONDS = 10.0
WHOM = ("group", "main process", "child")


@dataclass(frozen=True)
class Reference:
    """A run that nobody kills.

    Attributes:
        graph: Folder of its input.
        files: Content of its output.
        seconds: Time that it takes in a forked process.
    """

    graph: Path
    files: dict[str, Any]
    seconds: float


def options(engine: str, docs: bool) -> list[str]:
    """Return the options of a run; `TABLES` and `FORMATS` stand for runs with the engine random."""
    more = ["--formats", ALL_FORMATS] if engine == FORMATS else []
    engine = "random" if engine in (TABLES, FORMATS) else engine
    return ["--num-parts", "2", "--engine", engine, *more, *(["--data-docs"] if docs else [])]


@cache
def reference(engine: str, docs: bool) -> Reference:
    """Return the run that the others are compared with; each process of the campaign makes it once."""
    folder = Path(tempfile.mkdtemp(prefix="campaign-reference-"))
    if engine == TABLES:
        write_tables(folder / "in", rows=30)
    graph = folder / "in" / "graph.yaml" if engine == TABLES else library(papers=16).write(folder / "in")
    for name in ("first", "out"):  # the first call compiles
        began = time.monotonic()
        succeed(Command(["run", graph, folder / name, *options(engine, docs)], folder / "log"))
        seconds = time.monotonic() - began
    return Reference(graph, content(open_store(str(folder / "out"))), seconds)


def settle_quickly() -> None:
    """The server is near, so that nobody needs long between reading and writing."""
    s3_conditions.SETTLE_SECONDS = 0.3


@cache
def searched() -> Reference:
    """Return a run that nobody kills, over a graph that METIS and Mt-KaHyPar partition."""
    folder = Path(tempfile.mkdtemp(prefix="campaign-searched-"))
    begins = np.arange(SEARCHED_EDGES) % SEARCHED_NODES
    ends = (begins + 1 + np.arange(SEARCHED_EDGES) // SEARCHED_NODES * 997) % SEARCHED_NODES
    graph = SmallGraph({"a": SEARCHED_NODES}, {"a:r:a": Edges(begins, ends)}).write(folder / "in")
    began = time.monotonic()
    succeed(Command(["run", graph, folder / "out", *options("auto", False)], folder / "log"))
    return Reference(graph, content(open_store(str(folder / "out"))), time.monotonic() - began)


def killed_at_work(attempt: Attempt) -> Verdict:
    """Kill METIS's or Mt-KaHyPar's process while it works, or its parent, with which it must end."""
    known, out, chance = searched(), attempt.folder / "out", attempt.random
    start = partial(Command, ["run", known.graph, out, *options("auto", False)], attempt.folder / "log")
    command = start()
    while not (children := command.children()) and not command.ended():
        time.sleep(0.01)
    time.sleep(chance.uniform(0, 2))
    children = command.children() or children
    attempt.killed.update(kill(command, chance.choice(WHOM[1:]), chance))
    left = psutil.wait_procs(children, ORPHAN_SECONDS)[1]
    if left:
        raise Defect(f"{left} outlived their parent")
    succeed(start())
    compare(known, open_store(str(out)))
    return Verdict.SAME


def killed_locally(engine: str, attempt: Attempt) -> Verdict:
    docs = attempt.random.random() < DOCS
    known = reference(engine, docs)
    out = attempt.folder / "out"
    words = ["run", known.graph, out, *options(engine, docs)]
    _kill_and_repeat(attempt, partial(Command, words, attempt.folder / "log"), known.seconds)
    compare(known, open_store(str(out)))
    return Verdict.SAME


def killed_on_s3(engine: str, attempt: Attempt) -> Verdict:
    docs = attempt.random.random() < DOCS
    known, settings = reference(engine, docs), s3_server()
    root = f"s3://{BUCKET}/{attempt.folder.name}"
    with open_store(f"{root}/in", settings) as source:
        upload_folder(known.graph, source, last=METADATA)
    words = ["run", f"{root}/in", f"{root}/out", *options(engine, docs)]
    start = partial(
        Command,
        words,
        attempt.folder / "log",
        environment=s3_environment(settings),
        patch=settle_quickly,
    )
    _kill_and_repeat(attempt, start, known.seconds + 2)
    with open_store(f"{root}/out", settings) as output:
        compare(known, output)
    with open_store(root, settings) as everything:
        everything.delete([entry.key for entry in everything.list()])
    return Verdict.SAME


def _kill_and_repeat(attempt: Attempt, start: Callable[[], Command], seconds: float) -> None:
    chance, left = attempt.random, seconds
    for _ in range(chance.choice(KILLS)):
        whom, moment = chance.choice(WHOM), chance.uniform(0, left)
        command = start()
        time.sleep(moment)
        killed = kill(command, whom, chance)
        if not killed:
            break  # the run ended before
        attempt.killed.update(killed)
        left = max(left - moment, seconds / 4)  # a repetition does not do finished stages again
    succeed(start())


def kill(command: Command, whom: str, chance: random.Random) -> list[str]:
    """Kill a part of a command; if a child is killed, the command may still end well or with an error.

    Returns:
        What was killed: nothing if the command had ended, and the group if there was no child.
    """
    if command.ended():
        return []
    if whom == "child" and (children := command.children()):
        killed = []
        with suppress(psutil.Error):
            chance.choice(children).send_signal(signal.SIGKILL)
            killed = ["child"]
        command.wait()
        return killed
    if whom == "main process":
        command.kill_main()
        return ["main process"]
    command.kill_group()
    return ["group"]


def compare(known: Reference, output: Store) -> None:
    """Compare an output with the reference.

    Raises:
        Defect: Files are missing, new or different.
    """
    found = content(output)
    keys = [key for key in {*known.files, *found} if not key.startswith("ingest/records/")]  # with times
    differing = [key for key in keys if known.files.get(key) != found.get(key)]
    if differing:
        kinds = [
            f"{key}: {'missing' if key not in found else 'new' if key not in known.files else 'changed'}"
            for key in sorted(differing)
        ]
        raise Defect("\n".join(kinds))


def _cases(engine: str, local: int, on_s3: int, short: int = 0) -> list[Case]:
    missing = (lambda: MISSING) if engine == "parmetis" else (lambda: None)
    return [
        Case(f"kill, local, {engine}", partial(killed_locally, engine), local, short, missing),
        Case(f"kill, S3, {engine}", partial(killed_on_s3, engine), on_s3, short, missing),
    ]


CASES = [
    Case(f"kill, local, {TABLES}", partial(killed_locally, TABLES), 200, 1),
    Case(f"kill, local, {FORMATS}", partial(killed_locally, FORMATS), 150, 1),
    Case(f"kill, S3, {FORMATS}", partial(killed_on_s3, FORMATS), 40),
    *_cases("random", 250, 100, 2),
    *_cases("metis", 200, 60),
    *_cases("two-level", 120, 40),
    *_cases("parmetis", 40, 20),
    Case("kill, libraries at work", killed_at_work, 30),
]
