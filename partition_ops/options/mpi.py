"""How MPI's ranks are started and which library they call."""

from __future__ import annotations

from dataclasses import dataclass, field

from partition_ops.errors import UsageError

MOST_RANKS = 4096


@dataclass(frozen=True, kw_only=True)
class LibraryOptions:
    """The library that partitions.

    Attributes:
        path: The shared library; None looks for Debian's ParMETIS. One that exports ``PM4GNN_PartKway``
            will do as well as one that exports ``ParMETIS_V3_PartKway``.
        index_bits: Width of its ``idx_t``, 32 or 64, as it was built.
        real_bits: Width of its ``real_t``, 32 or 64, as it was built.
    """

    path: str | None = None
    index_bits: int = 32
    real_bits: int = 32

    def __post_init__(self) -> None:
        for option, bits in (("--parmetis-index-bits", self.index_bits), ("real_bits", self.real_bits)):
            if bits not in (32, 64):
                raise UsageError(f"{option} cannot be {bits}", expected="32 or 64")
        if self.path is None and (self.index_bits, self.real_bits) != (32, 32):
            raise UsageError(
                "Debian's ParMETIS has 32-bit numbers only",
                remedy="Name a library that was built with 64 bits by --parmetis-library.",
            )


@dataclass(frozen=True, kw_only=True)
class MpiOptions:
    """How the ranks are started.

    Attributes:
        ranks: Number of processes.
        hostfile: Local path of OpenMPI's list of hosts; None runs all ranks on this machine.
        mpirun: The command that starts ranks, with options of its own; None looks for OpenMPI's.
        library: What the ranks call.
    """

    ranks: int = 2
    hostfile: str | None = None
    mpirun: str | None = None
    library: LibraryOptions = field(default_factory=LibraryOptions)

    def __post_init__(self) -> None:
        if not 1 <= self.ranks <= MOST_RANKS:
            raise UsageError("--mpi-ranks is out of range", found=self.ranks, expected=f"1 to {MOST_RANKS}")
