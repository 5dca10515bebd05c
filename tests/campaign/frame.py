"""Cases of the campaign, their attempts with seeds, and the table of what they found.

A module of this package lists its cases in ``CASES``. ``python -m tests.campaign`` runs them.
"""

from __future__ import annotations

import atexit
import json
import os
import random
import secrets
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from functools import cache
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from pkgutil import iter_modules

from local_stack.s3_server import start_s3_server
from partition_ops.storage import StorageSettings

BUCKET = "campaign"


class Verdict(StrEnum):
    """The outcome of an attempt; anything else, and every exception, is a defect.

    Attributes:
        SAME: The output has the bytes of the reference, or `verify` has accepted it.
        REFUSED: A clear error of ours, and nothing was lost.
    """

    SAME = "same bytes"
    REFUSED = "clear refusals"


DEFECT = "defects"


class Defect(Exception):
    """Something that must not happen; the message says what was found."""


@dataclass(frozen=True)
class Attempt:
    """What an attempt gets.

    Attributes:
        random: The only source of chance; the same seed shows a defect again.
        folder: An empty folder for this attempt, which is removed afterwards.
        killed: What was killed, by its name; only if it was alive.
    """

    random: random.Random
    folder: Path
    killed: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True)
class Case:
    """A kind of harm that is tried many times.

    Attributes:
        name: Name in the table and in seeds.
        attempt: Does harm once, and returns what came of it.
        number: Attempts of ``make campaign``.
        short: Attempts in ``tests/long``, which have a budget of time.
        missing: Returns why it cannot run here, such as a missing program, or None.
    """

    name: str
    attempt: Callable[[Attempt], Verdict]
    number: int
    short: int = 0
    missing: Callable[[], str | None] = lambda: None


@dataclass(frozen=True)
class Result:
    """The result of one attempt; `killed` has numbers of kills by what was killed."""

    seed: str
    case: str
    index: int
    verdict: str
    details: str
    seconds: float
    killed: dict[str, int]


@cache
def all_cases() -> dict[str, Case]:
    """Return the cases of all modules of the package, by name."""
    package = import_module("tests.campaign")
    names = sorted(found.name for found in iter_modules(package.__path__))
    modules = [import_module(f"tests.campaign.{name}") for name in names if not name.startswith("__")]
    return {case.name: case for module in modules for case in getattr(module, "CASES", ())}


def run_attempt(name: str, index: int, seed: str) -> Result:
    """Run one attempt of a case in a temporary folder."""
    began = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="campaign-"))
    details = ""
    attempt = Attempt(random.Random(f"{seed} {name} {index}"), folder)
    try:
        found = all_cases()[name].attempt(attempt)
        verdict = found.value
    except Defect as defect:
        verdict, details = DEFECT, str(defect)
    except Exception:
        verdict, details = DEFECT, traceback.format_exc()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    seconds = time.monotonic() - began
    return Result(seed, name, index, verdict, details, seconds, dict(attempt.killed))


def run_campaign(
    chosen: Sequence[Case],
    seed: str,
    numbers: Callable[[Case], Iterable[int]],
    *,
    processes: int,
    minutes: float = float("inf"),
    journal: Path | None = None,
) -> list[Result]:
    """Run attempts of several cases, and print each defect with the command that shows it again.

    Args:
        chosen: The cases.
        seed: With the case and the number of the attempt, it determines the attempt.
        numbers: Returns the numbers of the attempts of a case.
        processes: Attempts at a time.
        minutes: No attempt begins later than this; every case gets its share of those that begin.
        journal: File to which each result is appended. Its attempts with this seed are not repeated.

    Returns:
        The results, and those that the journal had, of any seed.
    """
    results = read_journal(journal) if journal is not None else []
    done = {(result.case, result.index) for result in results if result.seed == seed}
    asked = [
        (index / max(1, case.number), case.name, index)
        for case in chosen
        for index in numbers(case)
        if (case.name, index) not in done
    ]
    end = time.monotonic() + 60 * minutes
    with _scratch(), ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        waiting = [(name, index) for _, name, index in sorted(asked)]
        running = set()
        while waiting or running:
            while waiting and len(running) < processes and time.monotonic() < end:
                running.add(pool.submit(run_attempt, *waiting.pop(0), seed))
            if not running:
                break
            ended = next(as_completed(running))
            running.remove(ended)
            results.append(ended.result())
            _show(results[-1], seed)
            if journal is not None:
                with journal.open("a") as lines:
                    lines.write(json.dumps(asdict(results[-1])) + "\n")
    return results


def read_journal(journal: Path) -> list[Result]:
    """Return the results that earlier calls have written."""
    lines = journal.read_text().splitlines() if journal.exists() else []
    return [Result(**json.loads(line)) for line in lines]


@contextmanager
def _scratch() -> Iterator[None]:
    """Let all temporary files of the processes lie in one folder, which is removed at the end."""
    before = os.environ.get("TMPDIR")
    with tempfile.TemporaryDirectory(prefix="campaign-", ignore_cleanup_errors=True) as folder:
        os.environ["TMPDIR"] = folder
        try:
            yield
        finally:
            os.environ.pop("TMPDIR")
            if before is not None:
                os.environ["TMPDIR"] = before


def _show(result: Result, seed: str) -> None:
    if result.verdict == DEFECT:
        again = f"python -m tests.campaign --only '{result.case}' --attempt {result.index} --seed {seed}"
        print(f"\nDEFECT in {result.case}, attempt {result.index}; to see it again: {again}")
        print(result.details, flush=True)


def table(results: Sequence[Result]) -> list[str]:
    """Return the table of a campaign in Markdown, with the number of kills that hit a living process."""
    columns = ("tried", "kills", Verdict.SAME.value, Verdict.REFUSED.value, DEFECT)
    rows: dict[str, Counter[str]] = {}
    for result in results:
        row = rows.setdefault(result.case, Counter())
        row.update(["tried", result.verdict])
        row["kills"] += sum(result.killed.values())
    everything = sum(rows.values(), Counter())
    lines = [f"| case | {' | '.join(columns)} |", "|---|" + "---:|" * len(columns)]
    for name, counts in [*sorted(rows.items()), ("**all**", everything)]:
        lines.append(f"| {name} | {' | '.join(f'{counts[column]:,}' for column in columns)} |")
    killed = sum((Counter(result.killed) for result in results), Counter())
    by_name = ", ".join(f"{name}: {number:,}" for name, number in sorted(killed.items()))
    seeds = ", ".join(sorted({result.seed for result in results}))
    return [*lines, "", f"Kills: {by_name or 'none'}. Seeds: {seeds}."]


@cache
def s3_server() -> StorageSettings:
    """Start an S3 server for this process, and return how to reach it; its bucket is `BUCKET`."""
    folder = Path(tempfile.mkdtemp(prefix="campaign-s3-"))
    server, access = start_s3_server(
        folder / "data",
        folder / "s3.log",
        access_key=secrets.token_hex(8),
        secret_key=secrets.token_hex(16),
        buckets=(BUCKET,),
    )

    def stop() -> None:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)

    atexit.register(stop)
    return access.settings()


def s3_environment(settings: StorageSettings) -> dict[str, str]:
    """Return the environment variables by which a command reaches an S3 server."""
    return {
        "AWS_ENDPOINT_URL": settings.endpoint_url or "",
        "AWS_ACCESS_KEY_ID": settings.access_key or "",
        "AWS_SECRET_ACCESS_KEY": settings.secret_key or "",
        "AWS_DEFAULT_REGION": settings.region or "",
    }


def missing_cases(chosen: Sequence[Case]) -> dict[str, str]:
    """Return why cases cannot run here, by name, and print it."""
    reasons = {case.name: reason for case in chosen if (reason := case.missing()) is not None}
    for name, reason in reasons.items():
        print(f"not run: {name}: {reason}", file=sys.stderr)
    return reasons
