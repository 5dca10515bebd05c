"""Arguments that name an input, an output or a file, and opening what they name."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from functools import partial

from partition_ops.artifacts import layout
from partition_ops.options.arguments import config_of
from partition_ops.stages.ingest.options import IngestConfig, is_graph_file
from partition_ops.storage import StorageSettings, Store, open_store
from partition_ops.storage.local_store import LocalStore, check_folder
from partition_ops.system.progress import terminal_progress

logger = logging.getLogger("partition_ops")

OUTPUT_HELP = "Root of the output: a folder or s3://…."
RUN_HELP = "Root of a finished output, or of a graph's runs, whose newest published run is taken: a folder or s3://…."


def add_input(parser: argparse.ArgumentParser) -> None:
    """Add the argument INPUT."""
    parser.add_argument(
        "input",
        metavar="INPUT",
        help="Folder with the graph's metadata.json or with ParMETIS's text, a GRAPH.yaml that names tables,"
        " or a GRAPH.bin that DGL saved; a local path or s3://….",
    )


def add_output(parser: argparse.ArgumentParser) -> None:
    """Add the argument OUTPUT."""
    parser.add_argument("output", metavar="OUTPUT", help=OUTPUT_HELP)


def add_output_option(parser: argparse.ArgumentParser) -> None:
    """Add the required option ``--output``."""
    parser.add_argument("--output", metavar="DIR", required=True, help=OUTPUT_HELP)


def add_input_and_output(parser: argparse.ArgumentParser) -> None:
    """Add INPUT and ``--output``, as most stages take them."""
    add_input(parser)
    add_output_option(parser)


def settings(arguments: argparse.Namespace) -> StorageSettings:
    """Return how to reach S3, from the common options."""
    return StorageSettings(endpoint_url=arguments.endpoint_url)


@contextmanager
def open_input(arguments: argparse.Namespace, *, read_only: bool = False) -> Iterator[Store]:
    """Open the graph: in the chunked format, ParMETIS's text, or a file that is ingested.

    Args:
        arguments: The parsed arguments.
        read_only: Do not ingest into ``--output`` or OUTPUT.
    """
    from partition_ops.jobs.open_graph import open_graph

    with ExitStack() as stack:
        output = previous = config = None
        tables = is_graph_file(arguments.input)
        if tables or hasattr(arguments, "reverse_edges"):
            config = config_of(arguments, IngestConfig)
        if tables:
            if getattr(arguments, "output", None):
                output = stack.enter_context(open_output(arguments))
            previous = stack.enter_context(open_previous(arguments))
        elif getattr(arguments, "output", None):  # says whether the graph was read with reverse edges
            store = stack.enter_context(open_store(arguments.output, settings(arguments)))
            # 'schema' takes the name of a file, too
            output = None if isinstance(store, LocalStore) and store.root.is_file() else store
        yield stack.enter_context(
            open_graph(
                arguments.input,
                partial(open_store, settings=settings(arguments)),
                output=output,
                previous=previous,
                config=config,
                data_docs=getattr(arguments, "data_docs", False),
                read_only=read_only,
                progress=terminal_progress(),
            )
        )


def open_output(arguments: argparse.Namespace) -> Store:
    """Open the root of the output."""
    store = open_store(arguments.output, settings(arguments))
    check_folder(store)
    return store


@contextmanager
def locked_output(arguments: argparse.Namespace, verb: str = "stage") -> Iterator[Store]:
    """Open the root of the output, keep other calls out of it, and warn if it is not finished any more."""
    from partition_ops.artifacts.lock import locked

    with open_output(arguments) as destination, locked(destination, verb):
        finished = destination.exists(layout.MANIFEST)
        yield destination
        if finished and not destination.exists(layout.MANIFEST):
            logger.warning(
                "%s is not finished any more, because a stage was done again: do the stages after it and"
                " 'partition-ops publish', or everything that is left with 'partition-ops run'",
                destination.uri,
            )


@contextmanager
def open_expectations(arguments: argparse.Namespace) -> Iterator[Store | None]:
    """Open the folder with the user's expectation suites, if ``--expectations`` names one."""
    uri: str | None = getattr(arguments, "expectations", None)
    with nullcontext() if uri is None else open_store(uri, settings(arguments)) as store:
        yield store


@contextmanager
def open_previous(arguments: argparse.Namespace) -> Iterator[Store | None]:
    """Open the earlier run, if ``--previous`` names one."""
    uri: str | None = getattr(arguments, "previous", None)
    with nullcontext() if uri is None else open_run(uri, arguments) as store:
        yield store


def open_run(uri: str, arguments: argparse.Namespace) -> Store:
    """Open an output, or the newest published run if the URI is the root of a graph's runs.

    Raises:
        InvalidInputError: ``latest.json`` there is broken, or missing beside ``runs/``.
    """
    from partition_ops.artifacts import latest

    return latest.open_run(uri, partial(open_store, settings=settings(arguments)))
