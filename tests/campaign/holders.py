"""Suspended and resumed holders of a lock, and four runs at once into one output."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any

from partition_ops.artifacts import lock
from partition_ops.artifacts.lock_document import read_lock
from partition_ops.chunked.metadata import METADATA
from partition_ops.storage import Store, open_store
from tests.campaign.commands import Command, succeed
from tests.campaign.frame import BUCKET, Attempt, Case, Defect, Verdict, s3_environment, s3_server
from tests.campaign.kills import options, reference, settle_quickly
from tests.integration.test_killed import content
from tests.uploads import upload_folder

ENGINES = ("random", "metis")
TIMEOUT = timedelta(seconds=4)  # instead of 20 minutes; locks have whole seconds
REFUSALS = ("taken over", "in use", "process that does not go on", "is not held by")


@dataclass(frozen=True)
class Place:
    """An input and an output, and the environment by which commands reach them."""

    source: str
    output: str
    environment: dict[str, str]
    store: Store


def here(attempt: Attempt) -> Place:
    known = reference("random", False)
    out = str(attempt.folder / "out")
    return Place(str(known.graph), out, {}, open_store(out))


def on_s3(attempt: Attempt) -> Place:
    settings = s3_server()
    root = f"s3://{BUCKET}/{attempt.folder.name}"
    with open_store(f"{root}/in", settings) as source:
        upload_folder(reference("random", False).graph, source, last=METADATA)
    store = open_store(f"{root}/out", settings)
    return Place(f"{root}/in", f"{root}/out", s3_environment(settings), store)


def elsewhere(system: str) -> None:
    """Let a process look as one on another machine, whose lock expires after `TIMEOUT`."""
    settle_quickly()
    lock.PROCESS_TIMEOUT = TIMEOUT
    lock.RENEWAL_INTERVAL = TIMEOUT / 8
    lock._identity = lambda: {"system": system, "started": "1"}


def suspended(where: Callable[[Attempt], Place], attempt: Attempt) -> Verdict:
    """A holder is suspended, another one with another engine takes over and finishes, then it resumes."""
    place, chance = where(attempt), attempt.random
    first, second = chance.sample(ENGINES, 2)
    known = reference(second, False)

    def start(engine: str, system: str) -> Command:
        words = ["run", place.source, place.output, *options(engine, False)]
        log = attempt.folder / f"log-{system}"
        return Command(words, log, environment=place.environment, patch=partial(elsewhere, system))

    suspect = start(first, "one")
    time.sleep(chance.uniform(0, known.seconds))
    suspect.send(signal.SIGSTOP)
    if suspect.ended():
        suspect.wait()
    time.sleep(TIMEOUT.total_seconds() + 2)
    other = start(second, "two")
    early = chance.random() < 0.5  # it resumes while the other one is at work
    if early:
        time.sleep(chance.uniform(0, known.seconds))
        suspect.send(signal.SIGCONT)
        code = other.wait()
    else:
        code = other.wait()
        suspect.send(signal.SIGCONT)
    resumed = suspect.wait()
    said = f"{first} resumed {'early' if early else 'late'} and ended with {resumed}: {suspect.output()}\n"
    said += f"{second} ended with {code}: {other.output()}"
    for command, ended in ((suspect, resumed), (other, code)):
        if ended != 0 and not (ended == 1 and any(text in command.output() for text in REFUSALS)):
            raise Defect(said)
    if resumed and code:
        again = start(second, "three")
        succeed(again)
        code = 0
    ended_well = [engine for engine, ended in ((first, resumed), (second, code)) if ended == 0]
    found = content(place.store)
    # a run that was suspended before it had the lock begins when it is resumed, and replaces the output
    if all(found != reference(engine, False).files for engine in ended_well):
        _compare(reference(ended_well[-1], False).files, place.store, said)
    return Verdict.REFUSED if resumed or code else Verdict.SAME


def at_once(where: Callable[[Attempt], Place], attempt: Attempt) -> Verdict:
    """Four runs begin at the same moment; those that do not get the lock are refused."""
    place, known = where(attempt), reference("random", False)
    commands = [
        Command(
            ["run", place.source, place.output, *options("random", False)],
            attempt.folder / f"log{number}",
            environment=place.environment,
            patch=settle_quickly,
        )
        for number in range(4)
    ]
    codes = [command.wait() for command in commands]
    said = "\n".join(command.output() for command in commands)
    if any(code not in (0, 1) for code in codes) or "unexpected" in said:
        raise Defect(f"exit codes {codes}: {said}")
    refused = [command for command, code in zip(commands, codes, strict=True) if code == 1]
    if not all(" in use" in command.output() or "taken over" in command.output() for command in refused):
        raise Defect(f"exit codes {codes}: {said}")
    if 0 not in codes:  # nobody may have got it on a server that ignores conditions
        words = ["run", place.source, place.output, *options("random", False)]
        succeed(Command(words, attempt.folder / "again", environment=place.environment))
    _compare(known.files, place.store, said)
    return Verdict.SAME


def _compare(files: dict[str, Any], output: Store, said: str) -> None:
    found = content(output)
    differing = sorted(key for key in {*files, *found} if files.get(key) != found.get(key))
    if differing:
        raise Defect(f"{', '.join(differing)} differ; {said}")
    if read_lock(output) is not None:
        raise Defect(f"a lock is left: {said}")


CASES = [
    Case("suspended holder, local", partial(suspended, here), 100, 1),
    Case("suspended holder, S3", partial(suspended, on_s3), 60),
    Case("four at once, local", partial(at_once, here), 50),
    Case("four at once, S3", partial(at_once, on_s3), 30),
]
