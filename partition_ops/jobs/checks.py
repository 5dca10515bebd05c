"""Checks of a whole job before any work, for the shell, the verb ``estimate`` and Airflow."""

from __future__ import annotations

from partition_ops.artifacts.verified_run import VerifiedRun
from partition_ops.artifacts.write_access import check_apart
from partition_ops.chunked.metadata import GraphMetadata, load_metadata
from partition_ops.formats.format import output_formats
from partition_ops.jobs.estimate import Estimate, check_job
from partition_ops.jobs.options import RunConfig
from partition_ops.stages.partition.engine import find_engine
from partition_ops.stages.partition.incremental.previous_run import PreviousRun, check_previous
from partition_ops.stages.partition.options import PartitionConfig
from partition_ops.stages.partition.partition import check_options
from partition_ops.stages.validate.expectations.suites import check_evaluator_installed
from partition_ops.storage import Store
from partition_ops.traffic.train_nodes import check_train_nodes


def check_packages(config: RunConfig, *, expectations: bool) -> None:
    """Check that the packages are installed which a job needs beyond the base installation.

    Args:
        config: Options.
        expectations: Whether the user has expectation suites.

    Raises:
        NotInstalledError: One is missing.
    """
    find_engine(config.engine).check(config.of(PartitionConfig))
    if expectations or config.data_docs:
        check_evaluator_installed()


def check_graph(config: RunConfig, source: Store) -> GraphMetadata:
    """Check that options fit a graph; only its metadata and headers of its files are read.

    Args:
        config: Options.
        source: Root of the input graph.

    Returns:
        Its metadata.

    Raises:
        UsageError: Options do not fit the graph, or one another.
        InvalidInputError: ``metadata.json`` is missing or wrong.
    """
    metadata = load_metadata(source, graph_name=config.graph_name)
    check_options(config, metadata, source)
    check_train_nodes(source, metadata, config.sampling.train_nodes or ())
    output_formats(config.formats, config.num_hops)
    return metadata


def check_before(config: RunConfig, source: Store, destination: Store) -> Estimate | None:
    """Check a job before any work: its options and its estimate.

    Args:
        config: Options.
        source: Root of the input graph.
        destination: Root of the output.

    Returns:
        The estimate; None if it is ignored.

    Raises:
        UsageError: Options do not fit the graph, or the input lies in the output.
        InvalidInputError: ``metadata.json`` is missing or wrong.
        NotEnoughRoomError: Memory or disk are estimated to be too small.
    """
    check_apart(source, destination, check_graph(config, source))
    return None if config.ignore_estimate else check_job(config, source, destination)


def check_earlier(previous: Store, destination: Store | None) -> VerifiedRun:
    """Check that an earlier run can be continued; its assignment is read.

    Args:
        previous: Root of the earlier run.
        destination: Root of the output; None if it is not known yet.

    Returns:
        The earlier run, whose files are checked against its manifest when they are read.

    Raises:
        UsageError: The two have the same root, or one lies in the other.
        InvalidInputError: The earlier run is not finished, or its assignment is damaged.
    """
    run = check_previous(previous, destination)
    PreviousRun(run, {}).check_assignment()
    return run
