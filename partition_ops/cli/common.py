"""Arguments and steps that several verbs share."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import fields
from pathlib import Path
from typing import Any, get_args

from partition_ops.artifacts.tasks import StageResult
from partition_ops.cli.console import Console
from partition_ops.errors import UsageError
from partition_ops.jobs.options import RunConfig
from partition_ops.stages.partition.engines import engine_names
from partition_ops.stages.partition.options import (
    INCREMENTAL,
    Balance,
    LibraryOptions,
    MpiOptions,
    Objective,
    PartitionConfig,
)
from partition_ops.stages.publish.options import Gate
from partition_ops.stages.validate.checks import choices
from partition_ops.storage import StorageSettings, Store, open_store
from partition_ops.storage.local_store import LocalStore, check_folder
from partition_ops.storage.uris import check_spelling
from partition_ops.system.progress import Progress, terminal_progress


def add_input(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("input", metavar="INPUT", help="the graph: a folder with metadata.json, or s3://…")
    parser.add_argument("--graph-name", metavar="NAME", help="used instead of the name in metadata.json")


def add_output(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--output",
        metavar="DIR",
        required=True,
        help="root of the output, a folder or s3://…",
    )


LEAST_SIZE = 1 << 20
# with the values that ask for nothing
OF_PARMETIS = {
    "mpi_ranks": MpiOptions.ranks,
    "hostfile": MpiOptions.hostfile,
    "mpirun": MpiOptions.mpirun,
    "parmetis_library": LibraryOptions.path,
    "parmetis_index_bits": LibraryOptions.index_bits,
}


def add_partition_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--num-parts", metavar="K", type=int, required=True, help="number of partitions")
    parser.add_argument(
        "--engine",
        default="auto",
        metavar="E",
        help=f"what cuts the graph: {', '.join(engine_names())}; auto, the default, is two-level or metis,"
        " whichever is expected to cut fewer edges",
    )
    parser.add_argument(
        "--balance",
        default="node-types",
        choices=get_args(Balance),
        help="what every partition gets the same share of: the nodes of each type (default), the nodes and"
        " in-edges of each type, or just the nodes of all types together",
    )
    parser.add_argument(
        "--seed", metavar="N", type=int, default=0, help="the same seed gives the same partitions (default 0)"
    )
    add_balance_options(parser)
    add_incremental_options(parser)
    add_mpi_options(parser)


def add_balance_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("balance, where the engine can")
    group.add_argument(
        "--balance-ntypes",
        metavar="FEATURE",
        help="a node feature of integers, such as train_mask: every partition gets the same share of the"
        " nodes with each value (within their type, unless --balance none)",
    )
    group.add_argument(
        "--tolerance",
        metavar="T",
        type=float,
        help="largest weight of a partition over its share, such as 1.03 (default: the engine's own)",
    )
    group.add_argument(
        "--target-shares",
        metavar="S,S,…",
        type=parse_shares,
        help="the share of each partition, for machines that are not equal, such as 2,1,1",
    )
    group.add_argument(
        "--objective",
        default="cut",
        choices=get_args(Objective),
        help="few edges between partitions (default), or little communication volume",
    )
    group.add_argument(
        "--num-trainers-per-machine",
        metavar="N",
        type=int,
        default=1,
        help="make every partition of N smaller ones, listed in assignment/trainers/ (default 1)",
    )


def add_incremental_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("a graph that has grown")
    group.add_argument(
        "--previous",
        metavar="RUN",
        help="the finished OUTPUT of an earlier run over the graph, or the root of its runs, a folder or"
        " s3://…: old nodes stay where they are unless moving pays",
    )
    group.add_argument(
        "--migration-price",
        metavar="N",
        type=int,
        help="edges that an old node must save from being cut to move"
        f" (default {PartitionConfig.migration_price})",
    )
    group.add_argument(
        "--drift",
        metavar="D",
        type=float,
        help="move whole clusters, and partition anew if that does not do, when the share of edges cut is"
        f" more than D times that of the last full run (default {PartitionConfig.drift})",
    )
    group.add_argument(
        "--compare-full",
        action="store_true",
        help="also partition anew, only to report what that would give",
    )


def add_halo_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--num-hops",
        metavar="N",
        type=int,
        default=1,
        help="how far the halo of a partition goes: 0 leaves out edges from other partitions, 1 has them"
        " (default), more have the in-edges of halo nodes too",
    )
    parser.add_argument(
        "--graph-formats",
        metavar="F,F,…",
        type=parse_words,
        default=("coo",),
        help="sparse formats in graph.dgl, some of coo, csr and csc (default: coo)",
    )


def parse_words(text: str) -> tuple[str, ...]:
    """Words with commas between them."""
    return tuple(word.strip() for word in text.split(","))


def add_mpi_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("engine parmetis")
    group.add_argument(
        "--mpi-ranks",
        metavar="N",
        type=int,
        default=MpiOptions.ranks,
        help="MPI processes (default %(default)s)",
    )
    group.add_argument("--hostfile", metavar="FILE", help="OpenMPI's list of hosts (default: this machine)")
    group.add_argument("--mpirun", metavar="CMD", help="the command that starts ranks, with its options")
    add_library_options(group)


def add_library_options(group: argparse._ActionsContainer) -> None:
    group.add_argument(
        "--parmetis-library",
        metavar="FILE",
        help="shared library of ParMETIS or PM4GNN (default: libparmetis, where the system has it)",
    )
    group.add_argument(
        "--parmetis-index-bits",
        metavar="N",
        type=int,
        default=LibraryOptions.index_bits,
        help="width of the integers that it was built with, 32 or 64 (default %(default)s)",
    )


def parse_shares(text: str) -> tuple[float, ...]:
    """Numbers with commas between them."""
    try:
        return tuple(float(share) for share in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} are no numbers, such as 2,1,1") from None


def library_options(arguments: argparse.Namespace) -> LibraryOptions:
    return LibraryOptions(path=arguments.parmetis_library, index_bits=arguments.parmetis_index_bits)


def partition_options(arguments: argparse.Namespace) -> dict[str, Any]:
    """The fields of `PartitionConfig`, from `add_partition_options` and what it adds.

    Raises:
        UsageError: An option is for growth, and no earlier run is named, or for another engine.
    """
    _check_growth(arguments)
    _check_mpi(arguments)
    given = {
        field.name: getattr(arguments, field.name) for field in fields(PartitionConfig) if field.name != "mpi"
    }
    options = {name: value for name, value in given.items() if value is not None}
    mpi = MpiOptions(
        ranks=arguments.mpi_ranks,
        hostfile=arguments.hostfile,
        mpirun=arguments.mpirun,
        library=library_options(arguments),
    )
    return {**options, "mpi": mpi}


def _check_growth(arguments: argparse.Namespace) -> None:
    """Refuse options that mean something only where an earlier run is followed."""
    values = {name: vars(arguments).get(name) for name in (*INCREMENTAL, "max_moved")}
    given = [name for name, value in values.items() if value is not None and value is not False]
    if given and arguments.previous is None:
        options = " and ".join(f"--{name.replace('_', '-')}" for name in given)
        raise UsageError(
            f"{options} can only be given for a graph that has grown",
            expected="--previous RUN, the run before",
            remedy="Name that run, or leave the option out.",
        )


def _check_mpi(arguments: argparse.Namespace) -> None:
    """Refuse options that mean something to the engine ``parmetis`` only."""
    given = [name for name, nothing in OF_PARMETIS.items() if getattr(arguments, name) != nothing]
    if given and arguments.engine != "parmetis":
        raise UsageError(
            " and ".join(f"--{name.replace('_', '-')}" for name in given) + " can only be given for parmetis",
            found=f"--engine {arguments.engine}",
            expected="--engine parmetis",
            remedy="Choose that engine, or leave the option out.",
        )


def run_config(arguments: argparse.Namespace, **options: Any) -> RunConfig:
    """Options of the whole job, from `add_partition_options`, `add_halo_options` and `add_memory`."""
    return RunConfig(
        **partition_options(arguments),
        memory=arguments.memory,
        num_hops=arguments.num_hops,
        graph_formats=arguments.graph_formats,
        data_docs=arguments.data_docs,
        **options,
    )


def add_on_defect(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--on-defect",
        metavar="[CHECK=]ACTION",
        action="append",
        default=[],
        help="what to do about findings: fail, exclude (the edges stay, the partitioner does not see them),"
        " drop (they leave the output) or warn; without CHECK it means duplicate_edges and self_loop_edges;"
        " may be repeated; the checks with a choice: " + ", ".join(choices()),
    )
    add_memory(parser)


def add_memory(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--memory",
        metavar="SIZE",
        type=parse_size,
        help="memory, such as 512M or 4G, for the search for duplicates (default: a quarter of what there is)"
        " and, in a whole job, for building several partitions at a time (default: three quarters)",
    )


def add_gate(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("quality gate: what is worse is not published")
    shares = {"edge-cut": "share of the edges that are cut", "moved": "share of the old nodes that moved"}
    for name, what in {**shares, "imbalance": "imbalance of a node type, 1 or more"}.items():
        group.add_argument(f"--max-{name}", metavar="X", type=float, help=f"largest {what}")


def gate(arguments: argparse.Namespace) -> Gate:
    """What partitions must not be worse than, from `add_gate`."""
    return Gate(**{field.name: getattr(arguments, field.name) for field in fields(Gate)})


def add_expectations(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--expectations",
        metavar="DIR",
        help="your own expectation suites, files of Great Expectations in a folder or s3://…",
    )


@contextmanager
def open_expectations(arguments: argparse.Namespace) -> Iterator[Store | None]:
    """The folder with the user's expectation suites, if one was named."""
    if arguments.expectations is None:
        yield None
        return
    with open_store(arguments.expectations, settings(arguments)) as store:
        yield store


@contextmanager
def open_previous(arguments: argparse.Namespace) -> Iterator[Store | None]:
    """The earlier run that an incremental one follows, if one was named."""
    if arguments.previous is None:
        yield None
        return
    with open_run(arguments.previous, arguments) as store:
        yield store


def parse_size(text: str) -> int:
    """Bytes of a size such as ``512M`` or ``4G``."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)i?B?", text.strip(), re.IGNORECASE)
    if match is None or float(match[1]) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no size, such as 512M or 4G")
    size = int(float(match[1]) * 1024 ** " KMGT".index(match[2].upper() or " "))
    if size < LEAST_SIZE:
        raise argparse.ArgumentTypeError(f"{text!r} is less than 1M: give it a unit, such as 512M or 4G")
    return size


def settings(arguments: argparse.Namespace) -> StorageSettings:
    """How to reach S3, from the common options."""
    return StorageSettings(endpoint_url=arguments.endpoint_url)


def open_input(arguments: argparse.Namespace) -> Store:
    return open_store(arguments.input, settings(arguments))


def open_output(arguments: argparse.Namespace) -> Store:
    store = open_store(arguments.output, settings(arguments))
    check_folder(store)
    return store


@contextmanager
def locked_output(arguments: argparse.Namespace) -> Iterator[Store]:
    """The root of the output, for a verb that writes into it."""
    with open_output(arguments) as destination, alone_in(destination):
        yield destination


@contextmanager
def alone_in(root: Store) -> Iterator[None]:
    """Keep every other call out of a root while this one writes there.

    Folders that had to be made for the lock go again where nothing else has come into them.

    Raises:
        ConflictError: Another call works there.
    """
    from partition_ops.artifacts.lock import locked

    folder = root.root if isinstance(root, LocalStore) else None
    made = [path for path in (folder, *folder.parents) if not path.exists()] if folder is not None else []
    try:
        with locked(root):
            yield
    finally:
        with suppress(OSError):
            for path in made:
                path.rmdir()


def split_file_uri(uri: str, option: str) -> tuple[str, str]:
    """The root and the key of one file.

    Raises:
        UsageError: The URI names a folder, or is misspelt.
    """
    check_spelling(uri)
    folder, _, name = uri.rpartition("/")
    if not name or folder.endswith(":/"):  # s3://bucket
        raise UsageError(
            f"{option} names no file", found=repr(uri), expected="a local path or s3://bucket/key"
        )
    return folder or ("/" if uri.startswith("/") else "."), name


def local_folder(text: str, option: str) -> Path:
    """A folder that can be local only.

    Raises:
        UsageError: The text is empty or a URI.
    """
    with suppress(UsageError):
        check_spelling(text)
        if text and "://" not in text:
            return Path(text)
    raise UsageError(f"{option} is no local folder", found=repr(text))


def open_run(uri: str, arguments: argparse.Namespace) -> Store:
    """The output at a URI, or the newest published run where that is the root of a graph's runs.

    Raises:
        InvalidInputError: ``latest.json`` there is broken, or missing beside ``runs/``.
    """
    from partition_ops.artifacts.latest import run_at

    with open_store(uri, settings(arguments)) as store:
        found = run_at(store)
    return open_store(found, settings(arguments))


def progress(arguments: argparse.Namespace) -> Progress:
    return terminal_progress()


def show_result(console: Console, result: StageResult) -> None:
    """One line for a finished task."""
    state = "as before" if result.skipped else f"{result.seconds:8.1f} s"
    console.line(f"{result.task:<16} {state:>10}  {summary(result.counters)}")


def summary(counters: dict[str, Any]) -> str:
    """The figures of a task in one line; lists and objects are left to --json."""
    shown = []
    for name, value in counters.items():
        if isinstance(value, bool | str):
            shown.append(f"{name.replace('_', ' ')} {value}")
        elif isinstance(value, int):
            shown.append(f"{name.replace('_', ' ')} {value:,}")
        elif isinstance(value, float):
            shown.append(f"{name.replace('_', ' ')} {value:.4g}")
    return ", ".join(shown)
