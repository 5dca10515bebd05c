"""Requirements of tests of ParMETIS: the real library, OpenMPI and mpi4py; else they are skipped."""

from __future__ import annotations

import shutil

import pytest

from partition_ops.errors import EngineError
from partition_ops.stages.partition.engines.parmetis import LibraryOptions
from partition_ops.stages.partition.mpi.parmetis_library import check_installed


def _missing() -> str | None:
    try:
        check_installed(LibraryOptions())
    except EngineError as error:
        return error.problem
    return None if shutil.which("mpirun") else "there is no mpirun"


MISSING = _missing()
needs_parmetis = pytest.mark.skipif(MISSING is not None, reason=f"needs ParMETIS over MPI: {MISSING}")
