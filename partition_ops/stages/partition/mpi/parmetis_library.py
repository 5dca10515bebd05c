"""ParMETIS, or KarypisLab's PM4GNN, called through ctypes.

It is looked for at run time and never shipped: its licence allows education, research and evaluation only.
Sources: ParMETIS manual 4.0, section 5.2, ``ParMETIS_V3_PartKway``; the header of PM4GNN. Its function has no
argument ``numflag`` (IDs begin at 0), and its options are those of METIS 5.2, an array of 40.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from partition_ops.errors import EngineError
from partition_ops.stages.partition.metis_library import METIS_OK, NUM_OPTIONS, pointer
from partition_ops.system import extras

if TYPE_CHECKING:
    from partition_ops.stages.partition.mpi.options import LibraryOptions

PM4GNN = "PM4GNN_PartKway"
FUNCTIONS = (PM4GNN, "ParMETIS_V3_PartKway")
ADAPTIVE = "ParMETIS_V3_AdaptiveRepart"
UNCOUPLED = 2  # the present partitions are independent of the ranks
MOST_RATIO = 1_000_000  # of cut edges to moved nodes; the limit of the manual
METIS_SEED = 9  # METIS_OPTION_SEED of METIS 5.2, which PM4GNN needs
FEWEST_NODES = 20  # for each rank or partition
MOST_SEEDS = 500_000  # ParMETIS multiplies the seed by the rank, and replaces 0 with 1
REMEDY = (
    "Install Debian's packages libparmetis4.0 (component non-free: read its licence) and openmpi-bin, and"
    " mpi4py ('pip install partition-ops[mpi]'), on every host; the other engines do not need them."
)


@dataclass(frozen=True)
class Slice:
    """The nodes of one rank, consecutive, and their neighbours."""

    # (ranks + 1,) int64, where the nodes of each rank begin; the same on every rank
    bounds: npt.NDArray[np.int64]
    offsets: npt.NDArray[Any]  # (nodes + 1,) of the library's index type, from 0
    neighbours: npt.NDArray[Any]  # (half-edges,) of the library's index type; IDs in the whole graph
    weights: npt.NDArray[Any]  # (nodes, constraints) of the library's index type


@dataclass(frozen=True)
class Target:
    """The partitions to make."""

    num_parts: int  # number of partitions
    tolerances: npt.NDArray[np.float64]  # (constraints,) largest weight of a partition over its share
    shares: npt.NDArray[np.float64]  # (partitions,) share of every weight; they sum to 1
    seed: int  # the same seed on the same number of ranks gives the same partitions


class Library:
    """A loaded library; only for use inside a rank, because loading it loads MPI.

    Raises:
        EngineError: There is none, it exports none of the functions, or its integers have another width than
            the options say.
    """

    def __init__(self, options: LibraryOptions) -> None:
        self.index = np.dtype(np.int32 if options.index_bits == 32 else np.int64)
        self.real = np.dtype(np.float32 if options.real_bits == 32 else np.float64)
        path = find_library(options)
        self._library = _load(path, own=options.path is not None)
        names = [name for name in FUNCTIONS if hasattr(self._library, name)]
        if not names:
            raise EngineError(
                f"{path} is not ParMETIS",
                found="a library without these functions",
                expected="a function " + " or ".join(FUNCTIONS),
                remedy="Name libparmetis.so or libpm4gnn.so with --parmetis-library.",
            )
        _check_index_bits(self._library, path, options)
        self.name = names[0]
        self._function: Any = getattr(self._library, self.name)
        self._function.restype = ctypes.c_int

    def partition(self, piece: Slice, target: Target, comm: Any) -> npt.NDArray[np.int32]:
        """Return (nodes,) int32, partitions of the rank's nodes; every rank calls this with its own slice.

        Raises:
            EngineError: The library reported a failure.
        """
        options = [1, 0, 1 + target.seed % MOST_SEEDS]
        if self.name == PM4GNN:
            options = [-1] * NUM_OPTIONS  # the defaults
            options[METIS_SEED] = 1 + target.seed % MOST_SEEDS
        parts = np.zeros(len(piece.offsets) - 1, self.index)
        return self._call(self._function, piece, target, [self._indices(options)], parts, comm)

    def repartition(
        self, piece: Slice, target: Target, homes: npt.NDArray[np.int32], price: int, comm: Any
    ) -> npt.NDArray[np.int32]:
        """Improve present partitions, ``homes``; every rank of ``comm`` calls this with its own slice.

        Source: ParMETIS manual 4.0, section 5.3, ``ParMETIS_V3_AdaptiveRepart``: it minimises the sum of
        moved nodes and of cut edges times a ratio, which is one over the price.

        Returns:
            (nodes,) int32, the partition of the rank's own nodes.

        Raises:
            EngineError: The library has no such function, or reported a failure.
        """
        function = getattr(self._library, ADAPTIVE, None)
        if function is None:
            raise EngineError(
                f"{self.name} cannot follow an earlier run",
                expected=f"a library with {ADAPTIVE}",
                remedy="Use ParMETIS itself, or --engine two-level.",
            )
        function.restype = ctypes.c_int
        ratio = self._reals([1 / max(price, 1 / MOST_RATIO)])
        options = self._indices([1, 0, 1 + target.seed % MOST_SEEDS, UNCOUPLED])
        sizes = self._indices(np.ones(len(homes)))
        parts = np.array(homes, self.index)
        return self._call(function, piece, target, [ratio, options], parts, comm, sizes)

    def _call(
        self,
        function: Any,
        piece: Slice,
        target: Target,
        how: list[Any],
        parts: npt.NDArray[Any],
        comm: Any,
        *sizes: Any,
    ) -> npt.NDArray[np.int32]:
        """Call one of the functions; ParMETIS's two differ only in the sizes and in ``how``."""
        from mpi4py import MPI

        cut = np.zeros(1, self.index)
        first_id = [] if self.name == PM4GNN else [self._indices([0])]
        status = function(
            self._indices(piece.bounds),
            self._indices(piece.offsets),
            self._indices(piece.neighbours),
            self._indices(piece.weights),
            *sizes,
            None,  # weights of the edges
            self._indices([2]),  # weights of the nodes only
            *first_id,
            self._indices([piece.weights.shape[1]]),
            self._indices([target.num_parts]),
            self._reals(np.repeat(target.shares, piece.weights.shape[1])),
            self._reals(target.tolerances),
            *how,
            pointer(cut),
            pointer(parts),
            ctypes.c_void_p(MPI._addressof(comm)),
        )
        if status != METIS_OK:
            raise EngineError(
                f"{self.name} could not partition the graph",
                found=f"status {status}",
                remedy="The library's own message is above. If it rejects 'tpwgts' or 'ubvec', it was built"
                " with real numbers of 64 bits (real_t), and must be built with 32.",
            )
        return parts.astype(np.int32, copy=False)

    def _indices(self, values: Any) -> Any:
        return pointer(np.ascontiguousarray(values, self.index))

    def _reals(self, values: Any) -> Any:
        return pointer(np.ascontiguousarray(values, self.real))


def _load(path: str, *, own: bool) -> Any:
    """Load a library; ``own`` says that the user named it."""
    try:
        return ctypes.CDLL(path)
    except OSError as error:
        remedy, text = REMEDY, str(error)
        missing = re.match(r"(\S+): cannot open shared object file", text)
        if missing and Path(missing[1]).name != Path(path).name:
            raise EngineError(
                f"{path} cannot be loaded, because it needs another library",
                found=f"no {missing[1]}",
                remedy=f"Install {missing[1]}, or add its folder to LD_LIBRARY_PATH, on every host.",
            ) from error
        if own and "undefined symbol" in text:
            remedy = (
                "A library that it uses is not linked. 'errexit' and names that begin with 'gk_' are in"
                " GKlib, which a shared libmetis.so must be linked with."
            )
        elif own and "cannot open shared object file" in text:
            remedy = "Add the folder of the missing library to LD_LIBRARY_PATH, on every host."
        raise EngineError(f"{path} cannot be loaded: {error}", remedy=remedy) from error


def _check_index_bits(library: Any, path: str, options: LibraryOptions) -> None:
    """Raise an error if the METIS in a library has integers of another width than expected.

    METIS itself tells: METIS_SetDefaultOptions writes -1 into 40 integers. A library that does not export it
    is not checked.
    """
    # a METIS that is preloaded is the one that ParMETIS calls
    scopes = (ctypes.CDLL(None), library)
    function = next(filter(None, (getattr(one, "METIS_SetDefaultOptions", None) for one in scopes)), None)
    if function is None:
        return
    written = np.zeros(NUM_OPTIONS, np.int64)
    function(pointer(written))
    found = 64 if written[-1] == -1 else 32
    if found != options.index_bits:
        remedy = f"Use --parmetis-index-bits {found}, or name another library with --parmetis-library."
        if options.path is None:
            remedy = f"Name its path with --parmetis-library, and use --parmetis-index-bits {found}."
        raise EngineError(
            f"{path} was built with other integers than --parmetis-index-bits says",
            found=f"an idx_t of {found} bits",
            expected=f"{options.index_bits} bits",
            remedy=remedy,
        )


def find_library(options: LibraryOptions) -> str:
    """Return the path or name of the library, without loading it; raise `EngineError` if there is none."""
    if options.path is not None:
        if not Path(options.path).is_file():
            raise EngineError(f"There is no library {options.path}", remedy=REMEDY)
        return options.path
    found = ctypes.util.find_library("parmetis")
    if found is None:
        raise EngineError("ParMETIS is not installed: there is no libparmetis", remedy=REMEDY)
    return found


def check_installed(options: LibraryOptions) -> None:
    """Raise `EngineError` or `NotInstalledError` if something that a rank needs is missing; load nothing."""
    find_library(options)
    extras.check_installed("The engine parmetis", "mpi4py")


def is_too_small(nodes: int, half_edges: int, ranks: int, num_parts: int) -> bool:
    """Return whether ParMETIS cannot partition a graph, because it would divide by zero."""
    return half_edges == 0 or nodes < FEWEST_NODES * max(ranks, num_parts)


def check_fits(index_bits: int, *, nodes: int, half_edges: int, weight_sums: Sequence[int]) -> None:
    """Raise `EngineError` if the graph is too large for the library's integers, which overflow silently.

    ``half_edges`` is twice the number of distinct edges; ``weight_sums`` are of each weight, over all nodes.
    """
    most = 2 ** (index_bits - 1) - 1
    numbers = {
        "nodes": nodes,
        "half-edges (every distinct edge in both directions)": half_edges,
        "entries of the node weights": nodes * len(weight_sums),
        **{f"in the sum of node weight {i + 1}": total for i, total in enumerate(weight_sums)},
    }
    for what, number in numbers.items():
        if number > most:
            raise EngineError(
                f"The graph is too large for a ParMETIS of {index_bits}-bit integers",
                found=f"{number} {what}",
                expected=f"at most {most}",
                remedy="Use a library built with 64-bit integers, with --parmetis-library and"
                " --parmetis-index-bits 64, or use --engine metis.",
            )
