"""``partition-ops pm-dglpart``, to be started by mpirun."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import traceback
from pathlib import Path
from typing import Any

from partition_ops.cli.console import Console
from partition_ops.cli.text_tables import counters_line
from partition_ops.cli.verb import Verb
from partition_ops.errors import EngineError, PartitionOpsError
from partition_ops.options.arguments import config_of
from partition_ops.options.declare import options_of
from partition_ops.stages.partition.mpi.options import LibraryOptions
from partition_ops.stages.partition.options import PartitionConfig, ProgramOptions
from partition_ops.storage.local_store import LocalStore
from partition_ops.system.signals import restore_default_handlers

PROGRAM = "pm_dglpart"
USAGE = b"<nparts-per-pe>"  # in the usage of the program of the dgl branch of ParMETIS


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("graph", metavar="GRAPH", help="Name of the graph in the names of the files.")
    parser.add_argument("parts", metavar="PARTS", type=int, help="Number of partitions for each rank.")


def execute(arguments: argparse.Namespace, console: Console) -> Any:
    from partition_ops.artifacts.write_access import check_root

    check_root("pm-dglpart", LocalStore(Path.cwd()))
    if config_of(arguments, ProgramOptions).use_program:
        _become_program(arguments)
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        from partition_ops.stages.partition.mpi.parmetis_library import REMEDY

        raise EngineError(f"MPI is not available: {error}", remedy=REMEDY) from error
    comm = MPI.COMM_WORLD
    if comm.size > 1:
        restore_default_handlers()  # mpirun ends the ranks
    try:
        counts = _partition(arguments, comm)
    except PartitionOpsError as error:
        console.error(error)
        sys.stderr.flush()
        comm.Abort(error.exit_code)  # ends the other ranks, which wait for this one
        raise
    except KeyboardInterrupt:  # no other rank waits
        raise
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        comm.Abort(1)
        raise
    if comm.rank != 0:
        sys.exit(0)  # only rank 0 prints
    console.line(f"{arguments.graph}: {counters_line(counts)}")
    return counts


def _partition(arguments: argparse.Namespace, comm: Any) -> dict[str, int]:
    from partition_ops.stages.partition.pm_dglpart.program import dglpart

    config = config_of(
        arguments,
        PartitionConfig,
        graph_name=arguments.graph,
        num_parts=arguments.parts * comm.size,
        engine="parmetis",
        mpi_ranks=comm.size,
    )
    return dglpart(config, Path.cwd(), comm)


def _become_program(arguments: argparse.Namespace) -> None:
    """Replace this process by the other program, so that mpirun sees it as the rank."""
    path = shutil.which(PROGRAM)
    if path is None:
        raise EngineError(
            f"There is no {PROGRAM} on the PATH",
            remedy="Build it from the dgl branch of ParMETIS, or leave --use-program out.",
        )
    content = Path(path).read_bytes()
    if content.startswith(b"\x7fELF") and USAGE not in content:  # it would print its usage, and succeed
        raise EngineError(
            f"{path} takes other arguments",
            found="a program that is not of the dgl branch of ParMETIS, such as that of PM4GNN",
            expected=f"{PROGRAM} <graph> <partitions for each rank>",
            remedy="Put the other program first on the PATH, or leave --use-program out.",
        )
    os.execvp(PROGRAM, [PROGRAM, arguments.graph, str(arguments.parts)])


VERB = Verb(
    description="""\
Partition GRAPH_nodes.txt, GRAPH_edges.txt and GRAPH_stats.txt of the current folder, which all hosts share,
into PARTS partitions for each rank, and write p<i>-GRAPH_nodes.txt, p<i>-GRAPH_edges.txt and
p<i>-GRAPH_stats.txt there:
  mpirun -np 4 partition-ops pm-dglpart GRAPH 2
ParMETIS must be installed. 'prepare --format parmetis' writes the input, 'convert-partition' reads the
output.""",
    add_arguments=add_arguments,
    options=(PartitionConfig, ProgramOptions),
    only={"seed", "tolerance", *(one.name for one in options_of(LibraryOptions, ProgramOptions))},
    execute=execute,
)
