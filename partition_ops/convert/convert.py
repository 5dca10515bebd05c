"""The whole stage in one process: scatter, every gather, the partition config."""

from __future__ import annotations

from collections.abc import Callable

from partition_ops.config import ConvertConfig
from partition_ops.convert.gather import gather_partition
from partition_ops.convert.partition_config import write_partition_config
from partition_ops.convert.scatter import scatter_edges
from partition_ops.progress import Progress
from partition_ops.storage import Store
from partition_ops.tasks import StageResult


def convert_graph(
    config: ConvertConfig,
    source: Store,
    destination: Store,
    *,
    progress: Progress | None = None,
    report: Callable[[StageResult], None] = lambda result: None,
) -> StageResult:
    """Convert a graph whose assignment is there, one partition after the other.

    Args:
        config: Options.
        source: Root of the input graph.
        destination: Root of the run, where ``partition`` has been done.
        progress: Shows the steps.
        report: Called with the result of each task as it ends.

    Returns:
        The result of the last task, which wrote the partition config.

    Raises:
        InvalidInputError: The input or the assignment cannot be read.

    Peak memory: see `scatter_edges` and `gather_partition`.
    """
    scattered = scatter_edges(config, source, destination, progress=progress)
    report(scattered)
    for part in range(scattered.counters["num_parts"]):
        report(gather_partition(config, source, destination, part=part, progress=progress))
    done = write_partition_config(config, source, destination, progress=progress)
    report(done)
    return done
