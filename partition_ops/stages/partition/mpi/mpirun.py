"""Start ranks with mpirun, and report the error of a rank to the process that started them."""

from __future__ import annotations

import itertools
import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from partition_ops.errors import EngineError, InvalidInputError, PartitionOpsError, StorageError, UsageError
from partition_ops.stages.partition.mpi.parmetis_library import find_library
from partition_ops.storage.local_store import LocalStore
from partition_ops.storage.uris import check_allowed
from partition_ops.system.signals import end_with_parent
from partition_ops.system.temporary_folders import full_disk

if TYPE_CHECKING:
    from partition_ops.stages.partition.mpi.options import MpiOptions

PRINTED = "partition-ops: error: "
ERROR_MARK = "@partition-ops-error "
COMMANDS = ("mpirun.openmpi", "mpirun")
GRACE_SECONDS = 10
SHOWN_LINES = 15
SHORTEST_PAUSE, LONGEST_PAUSE = 1e-5, 1e-3  # seconds
REMEDY = (
    "Install Debian's package openmpi-bin, and mpi4py ('pip install partition-ops[mpi]'), on every host;"
    " without --mpi-ranks, the other engines do not need them."
)
KINDS = {kind.__name__: kind for kind in (EngineError, InvalidInputError, StorageError, UsageError)}


class RankDiedError(EngineError):
    """A rank ended without reporting an error: it was killed, ran out of memory, or lost its host."""

    transient = True


def run_ranks(module: str, job: dict[str, Any], options: MpiOptions) -> str:
    """Run ``python -m module`` on every rank; rank 0 gets the job on standard input, never on a command line.

    The job may hold credentials. Rank 0 sends it to the others.

    Returns:
        What the ranks print.

    Raises:
        PartitionOpsError: There is no mpirun, or a rank failed, which ends all others.
    """
    command = [*mpirun_command(options), sys.executable, "-m", module]
    status, text = _run(command, json.dumps(job).encode())
    if status != 0:
        raise _failure(status, text)
    return text


def run_program(arguments: Sequence[str], options: MpiOptions, folder: Path) -> str:
    """Run a program on every rank, in a folder that all hosts share, and return what it prints.

    Raises:
        PartitionOpsError: There is no mpirun, or a rank failed, which ends all others.
    """
    status, text = _run([*mpirun_command(options), *arguments], b"", folder)
    if status != 0:
        raise _program_failure(status, text)
    return text


def run_rank(work: Callable[[Any], None]) -> None:
    """Do the work of one rank with the communicator of all ranks; an error aborts all."""
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    try:
        work(comm)
    except BaseException as error:
        report_error(error, comm.rank)
        comm.Abort(getattr(error, "exit_code", 1))


def meet(comm: Any) -> None:
    """Wait until all ranks are here, asleep: MPI's own waiting takes a core from the ranks that work."""
    barrier, pause = comm.Ibarrier(), SHORTEST_PAUSE
    while not barrier.Test():
        time.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE)


def report_error(error: BaseException, rank: int) -> None:
    """Write an error to standard error as one line, which `run_ranks` reads."""
    if isinstance(error, OSError):
        error = full_disk(error) or error
    described = {"rank": rank, "host": socket.gethostname(), "kind": type(error).__name__}
    if isinstance(error, PartitionOpsError):
        keys = ("problem", "found", "expected", "remedy")
        described |= {key: getattr(error, key) and str(getattr(error, key)) for key in keys}
    else:
        traceback.print_exception(error)
        described["problem"] = f"{type(error).__name__}: {error}"
    sys.stderr.flush()
    os.write(2, f"{ERROR_MARK}{json.dumps(described)}\n".encode())


def mpirun_command(options: MpiOptions) -> list[str]:
    """Return the command that starts the ranks, without the program.

    Raises:
        EngineError: There is no mpirun.
        UsageError: There is no such hostfile, or it is outside of the allowed roots.
    """
    command = shlex.split(options.mpirun) if options.mpirun else _own_mpirun(local=options.hostfile is None)
    if shutil.which(command[0]) is None:
        raise EngineError(f"There is no command {command[0]!r} to start MPI's ranks with", remedy=REMEDY)
    if options.hostfile is not None:
        check_allowed(LocalStore(Path(options.hostfile)))
        if not Path(options.hostfile).is_file():
            raise UsageError(
                "There is no such hostfile", found=options.hostfile, expected="a file on this machine"
            )
        command += ["--hostfile", str(Path(options.hostfile).absolute())]
    return [*command, "-np", str(options.number)]


def check_paths(options: MpiOptions) -> None:
    """Raise an error if the hostfile, command or library of the options does not exist, before other work."""
    if options.hostfile is not None or options.mpirun is not None:
        mpirun_command(options)
    if options.library.path is not None:
        find_library(options.library)


def _own_mpirun(*, local: bool) -> list[str]:
    found = next((name for name in COMMANDS if shutil.which(name)), None)
    if found is None:
        raise EngineError("There is no mpirun", remedy=REMEDY)
    # on one machine, allow more ranks than cores; on several, the hostfile gives the numbers
    crowded = ["--oversubscribe", "--mca", "mpi_yield_when_idle", "1"] if local else []
    return [found, "--bind-to", "none", *crowded]


def mpi_environment() -> dict[str, str]:
    """Return the environment of mpirun: OpenMPI runs as root only with two variables."""
    environment = dict(os.environ)
    if os.geteuid() == 0:
        environment |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    environment.setdefault("OMP_NUM_THREADS", "1")
    return environment


def _run(command: list[str], job: bytes, folder: Path | None = None) -> tuple[int, str]:
    """Return the status of a command, and what it has printed."""
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=mpi_environment(),
            cwd=folder,
            start_new_session=True,
            preexec_fn=end_with_parent(os.getpid(), signal.SIGTERM),  # mpirun then ends its ranks
        )
        try:
            process.communicate(job)
        finally:
            _stop(process)
        output.seek(0)
        return process.returncode, output.read().decode(errors="replace")


def _stop(process: subprocess.Popen[bytes]) -> None:
    """End mpirun, which ends its ranks, if it still runs."""
    if process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _failure(status: int, text: str) -> PartitionOpsError:
    for line in text.splitlines():
        _, mark, described = line.partition(ERROR_MARK)
        if mark:
            error = json.loads(described)
            kind = KINDS.get(error["kind"], EngineError)
            problem = f"Rank {error['rank']} on {error['host']}: {error['problem']}"
            return kind(problem, **{key: error.get(key) for key in ("found", "expected", "remedy")})
    lines = [line for line in text.splitlines() if line.strip("- ")]
    return RankDiedError(
        f"An MPI rank died (mpirun ended with status {status}); it wrote:\n"
        + "\n".join(lines[-SHOWN_LINES:]),
        remedy="If it ran out of memory, use more hosts or another engine.",
    )


def _program_failure(status: int, text: str) -> PartitionOpsError:
    """Return the error that a rank has printed as the command line does."""
    lines = iter(text.splitlines())
    problem = next((line.removeprefix(PRINTED) for line in lines if line.startswith(PRINTED)), None)
    if problem is None:
        return _failure(status, text)
    details = [line.strip() for line in itertools.takewhile(lambda line: line.startswith("  "), lines)]
    kinds = {InvalidInputError.exit_code: InvalidInputError, UsageError.exit_code: UsageError}
    return kinds.get(status, EngineError)(problem, remedy=" ".join(details) or None)
