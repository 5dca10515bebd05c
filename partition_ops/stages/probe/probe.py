"""Stage ``probe``: sample as trainers would, to measure how much they fetch from other partitions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from partition_ops.artifacts import layout
from partition_ops.artifacts.book import read_book
from partition_ops.artifacts.records import CONFIG_TASK, conversion_tasks, read_record
from partition_ops.artifacts.tasks import ArtifactWriter, Counters, StageResult, Task
from partition_ops.chunked.metadata import load_metadata
from partition_ops.stages.probe.options import ProbeConfig
from partition_ops.stages.probe.sampling import COUNTED, Prober, TrainerFigures
from partition_ops.storage import Store
from partition_ops.system.progress import NoProgress, Progress
from partition_ops.system.temporary_folders import temporary_folder
from partition_ops.train.graph import PartitionedGraph

PROBE_VERSION = 1


@dataclass(frozen=True)
class Probed:
    """Figures from sampling.

    Attributes:
        document: As ``schemas/probe.schema.json`` describes it; the same for the same options.
        found: Figures of each trainer; their times differ from run to run.
    """

    document: dict[str, Any]
    found: list[TrainerFigures]

    @property
    def batches_per_second(self) -> float:
        """Batches a second of one trainer, on average."""
        return _per_second(self.found)

    @property
    def by_partition(self) -> dict[str, float]:
        """Batches a second of each trainer, by the number of its partition as text."""
        return {str(one.part): _per_second([one]) for one in self.found}

    def counters(self) -> Counters:
        """Return the figures for the task's record, which may differ from run to run."""
        total = self.document["total"]
        return {
            "remote_neighbour_share": total["remote_neighbour_share"],
            "remote_bytes_per_batch": total["remote_bytes_per_batch"],
            "batches_per_second": self.batches_per_second,
            "batches_per_second_by_partition": self.by_partition,
        }


def probe_run(
    config: ProbeConfig,
    source: Store,
    destination: Store,
    *,
    cache: Path | None = None,
    progress: Progress | None = None,
) -> StageResult:
    """Sample as the trainers of a cluster would, one on each partition, before the run is published.

    Writes ``quality/probe.json``, which ``quality`` reads for its report. The speed is only in the task's
    record, because it differs from run to run, and artifacts do not.

    Args:
        config: Sampling options.
        source: Root of the input graph; only its ``metadata.json`` is read.
        destination: Root of the run, where every partition has been converted.
        cache: Folder of the cache; a temporary folder, removed at the end, if omitted.
        progress: Shows the partitions.

    Returns:
        The share of remote neighbours, the bytes that a batch fetches remotely, and batches a second by
        partition.

    Raises:
        InvalidInputError: The partitions are not converted.
        UsageError: There is no such partition, node type or feature; or the partitions cannot be sampled
            together.

    Peak memory: as `Prober.partition`. Disk: 32 bytes an edge and 8 bytes a node for each edge type, below
    ``TMPDIR`` or ``cache``.
    """
    name = load_metadata(source, graph_name=config.graph_name).graph_name
    read_record(destination, CONFIG_TASK)  # raises an error if convert has not been done
    num_parts = read_book(destination, name).num_parts

    def sample() -> Probed:
        with ExitStack() as stack:
            folder = cache or Path(stack.enter_context(temporary_folder()))
            return probe_partitions(config, destination, cache=folder, unpublished=True, progress=progress)

    return probe_task(destination, num_parts, config.options(), sample).run()


def probe_task(
    destination: Store, num_parts: int, options: Mapping[str, Any], sample: Callable[[], Probed]
) -> Task:
    """Return the task that samples and writes ``quality/probe.json``.

    Args:
        destination: Root of the run.
        num_parts: Number of partitions.
        options: Sampling options.
        sample: Samples the partitions.
    """

    def work(writer: ArtifactWriter) -> Counters:
        probed = sample()
        writer.write_json(layout.QUALITY_PROBE, probed.document)
        return probed.counters()

    return Task(
        "probe",
        destination,
        work,
        options=options,
        after=conversion_tasks(num_parts),
        outputs=[layout.QUALITY_PROBE],
    )


def probe_partitions(
    config: ProbeConfig,
    output: Store,
    *,
    cache: Path | None = None,
    unpublished: bool = False,
    progress: Progress | None = None,
) -> Probed:
    """Sample, and write nothing to the output; see `probe_run`.

    Args:
        config: Sampling options.
        output: Root of an output.
        cache: Folder of the cache.
        unpublished: Whether the output may lack a manifest.
        progress: Shows the partitions.
    """
    with PartitionedGraph(output, cache=cache, unpublished=unpublished) as graph:
        prober = Prober(config, graph)
        found = []
        with (progress or NoProgress()).step("Sampling", len(prober.parts), "partitions") as advance:
            for part in prober.parts:
                found.append(prober.partition(part))
                advance(1)
        document = {
            "version": PROBE_VERSION,
            "graph_name": graph.book.graph_name,
            "num_parts": graph.book.num_partitions(),
            "partition_config_sha256": graph.config_sha256,
            "options": _options(config, prober),
            "partitions": [{"part": one.part, **_figures([one])} for one in found],
            "total": _figures(found),
        }
    return Probed(document, found)


def _options(config: ProbeConfig, prober: Prober) -> dict[str, Any]:
    return {
        "node_type": prober.node_type,
        "fanouts": list(config.fanouts),
        "batch_size": config.batch_size,
        "batches": config.batches,
        "features": prober.features,
        "seed": config.seed,
    }


def _figures(found: list[TrainerFigures]) -> dict[str, Any]:
    """Return the sums of the figures of some trainers."""
    batches = sum(one.batches for one in found)
    counts = {name: sum(one.counts[name] for one in found) for name in COUNTED}
    return {
        "seeds": sum(one.seeds for one in found),
        "batches": batches,
        **counts,
        "remote_neighbour_share": round(_ratio(counts["remote_neighbours"], counts["neighbours"]), 6),
        "remote_bytes_per_batch": round(_ratio(counts["remote_bytes"], batches)),
    }


def _per_second(found: list[TrainerFigures]) -> float:
    return round(_ratio(sum(one.batches for one in found), sum(one.seconds for one in found)), 3)


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else 0.0
