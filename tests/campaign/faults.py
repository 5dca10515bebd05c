"""Slow and faulty S3, full disks, limited memory, and random damage to graphs."""

from __future__ import annotations

import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path

from partition_ops.artifacts import layout
from partition_ops.chunked.metadata import METADATA
from partition_ops.storage import open_store
from tests.campaign.commands import Command, succeed
from tests.campaign.frame import BUCKET, Attempt, Case, Defect, Verdict, s3_environment, s3_server
from tests.campaign.kills import compare, options, reference, settle_quickly
from tests.faulty_s3 import Faults, faulty
from tests.uploads import upload_folder

ENGINE = "random"
FAULTY_SECONDS = 900.0  # a run of 500 requests, of which 10 are 20 s late, and botocore's waits
CGROUPS = Path("/sys/fs/cgroup/memory")
LEAST_MEMORY, MOST_MEMORY = 64, 1024  # MiB
LEAST_DISK, MOST_DISK = 16, 2048  # KiB
BIG_DISK = 256 << 10  # KiB


def faulty_server(attempt: Attempt) -> Verdict:
    """Run a job over a server that fails a tenth of all requests and damages a hundredth of all transfers."""
    chance, settings, known = attempt.random, s3_server(), reference(ENGINE, docs=False)
    root = f"s3://{BUCKET}/{attempt.folder.name}"
    with open_store(f"{root}/in", settings) as source:
        upload_folder(known.graph, source, last=METADATA)
    faults = Faults(
        chance.randrange(2**32),
        flipped=0.01,
        flipped_uploads=0.01,
        late=20.0 if chance.random() < 0.05 else 1.0,
    )
    words = ["run", f"{root}/in", f"{root}/out", *options(ENGINE, docs=False)]
    with faulty(settings, faults) as through:
        command = Command(
            words, attempt.folder / "log", environment=s3_environment(through), patch=settle_quickly
        )
        command.wait(FAULTY_SECONDS)
    verdict = _verdict(command, {1})
    if verdict is Verdict.REFUSED:
        again = attempt.folder / "again"
        succeed(Command(words, again, environment=s3_environment(settings), patch=settle_quickly))
    with open_store(f"{root}/out", settings) as output:
        compare(known, output)
    with open_store(root, settings) as everything:
        everything.delete([entry.key for entry in everything.list()])
    return verdict


def _verdict(command: Command, codes: set[int]) -> Verdict:
    """Return what became of a command.

    Raises:
        Defect: It ended with another code than 0 and ``codes``, or without a clear error.
    """
    if command.code == 0:
        return Verdict.SAME
    said = command.output()
    if command.code not in codes or "Traceback" in said or "partition-ops: error:" not in said:
        raise Defect(f"{' '.join(command.words)} ended with {command.code}: {said}")
    return Verdict.REFUSED


def full_disk(whole: bool, attempt: Attempt) -> Verdict:
    """Run a job whose output, or whose temporary files too, are on a disk of a random size."""
    known, disk = reference(ENGINE, docs=False), attempt.folder / "disk"
    size = int(LEAST_DISK * (MOST_DISK / LEAST_DISK) ** attempt.random.random())
    with small_disk(disk, size) as enlarge:
        words = ["run", known.graph, disk / "out", *options(ENGINE, docs=False)]
        environment = {"TMPDIR": str(disk / "tmp")} if whole else {}
        (disk / "tmp").mkdir()
        command = Command(words, attempt.folder / "log", environment=environment)
        command.wait()
        verdict = _verdict(command, {1, 2})
        enlarge()
        succeed(Command(words, attempt.folder / "again", environment=environment))
        compare(known, open_store(str(disk / "out")))
    return verdict


@contextmanager
def small_disk(folder: Path, size: int) -> Iterator[partial[None]]:
    """Mount a disk of a size in KiB, and yield a function that makes it large."""
    folder.mkdir()
    _call("mount", "-t", "tmpfs", "-o", f"size={size}k", "tmpfs", str(folder))
    try:
        yield partial(_call, "mount", "-o", f"remount,size={BIG_DISK}k", str(folder))
    finally:
        _call("umount", str(folder))


def _call(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True)


@cache
def no_mounts() -> str | None:
    """Return why no disk can be mounted here, or None."""
    folder = Path(tempfile.mkdtemp(prefix="campaign-mount-"))
    try:
        with small_disk(folder / "disk", LEAST_DISK):
            return None
    except (OSError, subprocess.CalledProcessError):
        return "no disk can be mounted; it takes root"
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def limited_memory(attempt: Attempt) -> Verdict:
    """Run a job with `--memory` in a control group of that size, and again without both if it ended."""
    known, out = reference(ENGINE, docs=False), attempt.folder / "out"
    limit = attempt.random.randrange(LEAST_MEMORY, MOST_MEMORY)
    words = ["run", known.graph, out, *options(ENGINE, docs=False), "--memory", f"{limit}M"]
    with control_group(limit << 20) as group:
        command = Command(words, attempt.folder / "log", patch=partial(_join, group))
        command.wait()
    verdict = _verdict(command, {1, 2, 3})
    if verdict is Verdict.SAME:
        compare(known, open_store(str(out)))
        return verdict
    if open_store(str(out)).exists(layout.MANIFEST):
        raise Defect(f"refused, but published: {command.output()}")
    succeed(Command(["run", known.graph, out, *options(ENGINE, docs=False)], attempt.folder / "again"))
    compare(known, open_store(str(out)))
    return verdict


@contextmanager
def control_group(limit: int) -> Iterator[Path]:
    """Make a control group (version 1) with a memory limit in bytes."""
    group = CGROUPS / f"campaign-{secrets.token_hex(6)}"
    group.mkdir()
    try:
        (group / "memory.limit_in_bytes").write_text(str(limit))
        yield group
    finally:
        group.rmdir()


def _join(group: Path) -> None:
    (group / "cgroup.procs").write_text("0")


@cache
def no_control_groups() -> str | None:
    """Return why no control group can be made here, or None."""
    try:
        with control_group(1 << 30):
            return None
    except OSError:
        return f"no control group can be made in {CGROUPS}; it takes root and version 1"


def damaged_graph(attempt: Attempt) -> Verdict:
    """Damage a graph at random: it is rejected with an error of ours, or its output passes verification."""
    from tests.long.test_damaged_graphs import run_damaged

    outcome = run_damaged(attempt.folder, attempt.random.randrange(2**32))
    return Verdict.REFUSED if outcome == "refused" else Verdict.SAME


CASES = [
    Case("faults, S3", faulty_server, 60),
    Case("full disk, output", partial(full_disk, False), 100, 1, no_mounts),
    Case("full disk, output and TMPDIR", partial(full_disk, True), 100, 1, no_mounts),
    Case("memory limit", limited_memory, 60, 0, no_control_groups),
    Case("damage", damaged_graph, 10_000),
]
