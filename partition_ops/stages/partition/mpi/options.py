"""Options of the engines that run over MPI; imported for ``--help``, so nothing heavy is."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from partition_ops.errors import UsageError
from partition_ops.options.declare import Options, option, option_group

PARMETIS = {"section": "Engine parmetis", "only_with": "engine=parmetis"}
RANKS = {"section": "MPI", "only_with": "engine=parmetis|two-level"}
BITS = (32, 64)
DEFAULT_RANKS = 2  # of the engine parmetis


@dataclass(frozen=True, kw_only=True)
class LibraryOptions(Options):
    """The shared library that the engine ``parmetis`` calls."""

    path: str | None = option(
        None,
        name="parmetis_library",
        help="Path of the shared library of ParMETIS, or of a library that exports PM4GNN_PartKway.",
        metavar="FILE",
        empty="the system's libparmetis",
        form=None,
        **PARMETIS,
    )
    index_bits: int = option(
        32,
        name="parmetis_index_bits",
        help="Width of the integers (idx_t) that the library was built with, 32 or 64.",
        metavar="N",
        form=None,
        **PARMETIS,
    )
    real_bits: int = 32

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, bits in (("--parmetis-index-bits", self.index_bits), ("real_bits", self.real_bits)):
            if bits not in BITS:
                raise UsageError(f"{name} cannot be {bits}", expected="32 or 64")
        if self.path is None and (self.index_bits, self.real_bits) != (32, 32):
            raise UsageError(
                "Debian's ParMETIS has 32-bit numbers only",
                remedy="Name a library that was built with 64 bits by --parmetis-library.",
            )


@dataclass(frozen=True, kw_only=True)
class MpiOptions(Options):
    """How MPI's ranks are started, and the library that those of the engine ``parmetis`` call."""

    ranks: int | None = option(
        None,
        name="mpi_ranks",
        help="Number of MPI processes of the engine parmetis or two-level; each holds a part of the edges.",
        title="MPI ranks",
        metavar="N",
        minimum=1,
        maximum=4096,
        empty="2 for the engine parmetis, no MPI for two-level",
        form={"section": "More"},
        **RANKS,
    )
    hostfile: str | None = option(
        None,
        help="OpenMPI's list of hosts, for MPI processes on several machines: a local path.",
        title="Hostfile",
        metavar="FILE",
        empty="all ranks run on this machine",
        form={"section": "More"},
        **RANKS,
    )
    mpirun: str | None = option(
        None,
        help="Command that starts the ranks, with its options.",
        metavar="CMD",
        empty="OpenMPI's mpirun",
        form=None,
        **RANKS,
    )
    library: LibraryOptions = option_group(LibraryOptions)

    @property
    def number(self) -> int:
        """Number of ranks of the engine ``parmetis``."""
        return self.ranks or DEFAULT_RANKS

    def options(self) -> dict[str, Any]:
        """Return the options that the assignment of the engine ``parmetis`` depends on, as JSON."""
        return {"ranks": self.number, "library": asdict(self.library)}
