"""The command line: ``partition-ops VERB``.

Exit codes: 0 success, 2 wrong use, 3 bad input, 1 other errors; 130 interrupted, 129 and 143 ended by SIGHUP
or SIGTERM. Signals are handled from the start, so the verbs are imported only after the handlers are set.
"""

from __future__ import annotations

import atexit
import os
import sys
from typing import TYPE_CHECKING, NoReturn

from partition_ops.system.signals import SignalHandler

if TYPE_CHECKING:
    from collections.abc import Sequence

# longest time that a thread waits for the interpreter lock: with 64 partitions, whose files are small,
# gathering takes 0.83 of the time that it takes with Python's 5 ms
SWITCH_SECONDS = 0.0005


def main(argv: Sequence[str] | None = None, *, alone: bool = False) -> int:
    """Run a verb and return the exit code; ``alone`` says that this process does nothing else."""
    words = sys.argv[1:] if argv is None else [*argv]
    with SignalHandler(as_json="--json" in words) as signals:
        try:
            from partition_ops.cli.dispatch import run_verb

            signals.unwind_on_signal()
            code = run_verb(words, alone=alone)
        except KeyboardInterrupt:
            return signals.finish()
        return signals.finish() if code and signals.received else code


def command() -> NoReturn:
    """Run a verb and end the process, without taking its modules and objects apart first.

    That takes 0.35 s once numba is loaded, a tenth of the job of 58,000 nodes. Threads are waited for, and
    functions for the end of the process are called, as always. A rank of MPI ends in the usual way, in which
    MPI learns of it.
    """
    sys.setswitchinterval(SWITCH_SECONDS)
    # nothing here multiplies large matrices; threads that wait for them take 0.5 s of processor time of a job
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    code: list[str | int | None] = [1]

    def end() -> None:
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        except OSError:
            return  # the interpreter reports it
        if isinstance(code[0], int) and "mpi4py" not in sys.modules:
            os._exit(code[0])

    atexit.register(end)  # the first one is called last
    try:
        code[0] = main(alone=True)
    except SystemExit as exit:
        code[0] = exit.code or 0
        raise
    sys.exit(code[0])
