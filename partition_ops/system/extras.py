"""Packages that the base installation does not have, the extras that bring them, and the error without them.

Call `check_installed` before any work that ends in such a package. It imports nothing.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec

from partition_ops.errors import UsageError

EXTRAS = {  # by module: the name of the package, and the extra that brings it
    "deltalake": ("deltalake", "delta"),
    "dgl": ("DGL", "dgl"),
    "duckdb": ("DuckDB", "tables"),
    "fastavro": ("fastavro", "avro"),
    "h5py": ("h5py", "hdf5"),
    "great_expectations": ("Great Expectations", "expectations"),
    "ibis": ("Ibis", "tables"),
    "mpi4py": ("mpi4py", "mpi"),
    "mtkahypar": ("Mt-KaHyPar", "kahypar"),
    "psycopg": ("psycopg", "postgres"),
    "pyspark": ("PySpark", "spark"),
    "torch": ("PyTorch", "pyg"),
    "torch_geometric": ("PyG", "pyg"),
}
LAST_OF_DGL = (3, 11)  # wheels of dgl 1.1.3 stop at this Python


class NotInstalledError(UsageError):
    """A package that is not part of the base installation is missing."""


def is_installed(module: str) -> bool:
    """Return whether a module can be imported, without importing it."""
    try:
        return find_spec(module) is not None
    except ValueError:  # another module stands under its name
        return True


def check_installed(what: str, *modules: str, extra: str | None = None) -> None:
    """Check that the packages of some modules are installed.

    Args:
        what: What needs them, as the subject of a sentence.
        modules: Names of modules in `EXTRAS`.
        extra: The extra that the message names; by default the one of the first missing module.

    Raises:
        NotInstalledError: One of them is missing. The message names it and the command that installs it.
    """
    for module in modules:
        if not is_installed(module):
            raise not_installed(what, module, extra)


def not_installed(what: str, module: str, extra: str | None = None) -> NotInstalledError:
    """Return the error that `check_installed` raises; see there."""
    name, usual = EXTRAS[module]
    problem = f"{what} needs {name}, which is not installed"
    return NotInstalledError(problem, remedy=how_to_install(extra or usual))


def how_to_install(extra: str) -> str:
    """Return the sentence that says how to install an extra."""
    command = f"pip install 'partition-ops[{extra}]'"
    if extra == "dgl" and sys.version_info[:2] > LAST_OF_DGL:
        return f"Use Python 3.11, the last with wheels of dgl 1.1.3, and install it there: {command}."
    return f"Install it: {command}."
