"""Requirements of tests over MPI: OpenMPI and mpi4py, and for some ParMETIS; else they are skipped."""

from __future__ import annotations

import shutil

import pytest

from partition_ops.errors import EngineError
from partition_ops.stages.partition.mpi.options import LibraryOptions
from partition_ops.stages.partition.mpi.parmetis_library import check_installed
from partition_ops.system.extras import is_installed


def _missing() -> str | None:
    try:
        check_installed(LibraryOptions())
    except EngineError as error:
        return error.problem
    return None if shutil.which("mpirun") else "there is no mpirun"


MISSING = _missing()
HAS_MPI = is_installed("mpi4py") and shutil.which("mpirun") is not None
needs_mpi = pytest.mark.skipif(not HAS_MPI, reason="needs OpenMPI and mpi4py")
needs_parmetis = pytest.mark.skipif(MISSING is not None, reason=f"needs ParMETIS over MPI: {MISSING}")
