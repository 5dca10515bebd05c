"""``partition-ops pm-dglpart``, to be started by mpirun."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import traceback
from pathlib import Path
from typing import Any

from partition_ops.cli import common
from partition_ops.cli.console import Console
from partition_ops.errors import EngineError, PartitionOpsError
from partition_ops.stages.partition.options import MpiOptions, PartitionConfig
from partition_ops.system.signals import restore_default_handlers

NAME = "pm-dglpart"
SUMMARY = "partition ParMETIS's text files under mpirun"
DESCRIPTION = """\
Partition GRAPH_nodes.txt, GRAPH_edges.txt and GRAPH_stats.txt of the current folder, which all hosts
share, into PARTS partitions for each rank, and write p<i>-GRAPH_nodes.txt, p<i>-GRAPH_edges.txt and
p<i>-GRAPH_stats.txt there:
  mpirun -np 4 partition-ops pm-dglpart GRAPH 2
ParMETIS must be installed. 'prepare --format parmetis' writes the input, 'convert-partition' reads the
output."""
PROGRAM = "pm_dglpart"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("graph", metavar="GRAPH", help="name of the graph in the names of the files")
    parser.add_argument("parts", metavar="PARTS", type=int, help="partitions for each rank")
    parser.add_argument("--seed", metavar="N", type=int, default=0, help="the same seed repeats the result")
    parser.add_argument("--tolerance", metavar="T", type=float, help="largest weight over its share (1.05)")
    parser.add_argument(
        "--use-program",
        action="store_true",
        help="become the pm_dglpart of the ParMETIS project that is on the PATH: it drops duplicate edges,"
        " writes three-digit part numbers and no stats files, and takes none of the other options",
    )
    common.add_library_options(parser)


def execute(arguments: argparse.Namespace, console: Console) -> Any:
    if arguments.use_program:
        _become_program(arguments)
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        from partition_ops.stages.partition.mpi.parmetis_library import REMEDY

        raise EngineError(f"MPI is not here: {error}", remedy=REMEDY) from error
    comm = MPI.COMM_WORLD
    if comm.size > 1:
        restore_default_handlers()  # which is mpirun
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
        sys.exit(0)  # rank 0 speaks for all
    console.line(f"{arguments.graph}: {common.summary(counts)}")
    return counts


def _partition(arguments: argparse.Namespace, comm: Any) -> dict[str, int]:
    from partition_ops.stages.partition.pm_dglpart.program import dglpart

    config = PartitionConfig(
        graph_name=arguments.graph,
        num_parts=arguments.parts * comm.size,
        engine="parmetis",
        seed=arguments.seed,
        tolerance=arguments.tolerance,
        mpi=MpiOptions(ranks=comm.size, library=common.library_options(arguments)),
    )
    return dglpart(config, Path.cwd(), comm)


def _become_program(arguments: argparse.Namespace) -> None:
    """Run the other program in this process's place, so that mpirun sees it as the rank."""
    if shutil.which(PROGRAM) is None:
        raise EngineError(
            f"There is no {PROGRAM} on the PATH",
            remedy="Build it from the dgl branch of ParMETIS, or leave --use-program out.",
        )
    os.execvp(PROGRAM, [PROGRAM, arguments.graph, str(arguments.parts)])
