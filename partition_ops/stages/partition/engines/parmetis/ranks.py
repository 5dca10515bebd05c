"""What every rank does around its work: an error of one ends all, and tells which rank it was."""

from __future__ import annotations

import json
import os
import socket
import sys
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from partition_ops.errors import PartitionOpsError

ERROR_MARK = "@partition-ops-error "


def run_rank(work: Callable[[Any], None]) -> None:
    """Do the work of one rank, with the communicator of all; an error aborts all ranks."""
    from mpi4py import MPI

    comm = MPI.COMM_WORLD
    try:
        work(comm)
    except BaseException as error:
        report_error(error, comm.rank)
        comm.Abort(getattr(error, "exit_code", 1))


def report_error(error: BaseException, rank: int) -> None:
    """Write an error to standard error as one line, for whoever started the ranks."""
    described = {"rank": rank, "host": socket.gethostname(), "kind": type(error).__name__}
    if isinstance(error, PartitionOpsError):
        keys = ("problem", "found", "expected", "remedy")
        described |= {key: getattr(error, key) and str(getattr(error, key)) for key in keys}
    else:
        traceback.print_exception(error)
        described["problem"] = f"{type(error).__name__}: {error}"
    sys.stderr.flush()
    os.write(2, f"{ERROR_MARK}{json.dumps(described)}\n".encode())


def bounds_of(nodes: int, ranks: int) -> npt.NDArray[np.int64]:
    """(ranks + 1,) int64: consecutive nodes for each rank, as evenly as can be."""
    return np.arange(ranks + 1, dtype=np.int64) * nodes // ranks
