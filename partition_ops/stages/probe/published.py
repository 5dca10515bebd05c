"""Probe a run that is published already, and renew its report and its manifest."""

from __future__ import annotations

from pathlib import Path

from partition_ops.artifacts.manifest import read_manifest
from partition_ops.artifacts.tasks import conversion_tasks, run_task
from partition_ops.stages.probe.options import ProbeConfig
from partition_ops.stages.probe.probe import Probed, probe_partitions, record_probe
from partition_ops.stages.publish.publish import renew_manifest
from partition_ops.stages.quality.options import QualityConfig
from partition_ops.stages.quality.quality import renew_report
from partition_ops.storage import Store
from partition_ops.system.progress import Progress


def probe_published(
    config: ProbeConfig,
    output: Store,
    *,
    report: bool = True,
    cache: Path | None = None,
    progress: Progress | None = None,
) -> Probed:
    """Sample as the trainers of a cluster would, and add the figures to the quality report.

    The partitions and everything else but the report stay as they are. The output has no manifest for the
    moment in which the report is written; who is stopped just then writes it with the verb ``publish``.

    Args:
        config: What is sampled; its ``graph_name`` is not used.
        output: Root of a finished output.
        report: Add the figures to the report; otherwise nothing of the output is touched.
        cache: Folder of the cache.
        progress: Shows the partitions.

    Raises:
        InvalidInputError: The output is not finished.
        UsageError: There is no such partition, node type or feature.

    Peak memory: as `partition_ops.stages.probe.probe.probe_run`.
    """
    manifest = read_manifest(output)
    probed = probe_partitions(config, output, cache=cache, progress=progress)
    if report:
        options = config.options() | {"graph_name": manifest["options"]["convert-config"]["graph_name"]}
        after = conversion_tasks(probed.document["num_parts"])
        run_task("probe", output, options=options, after=after, work=lambda task: record_probe(probed, task))
        quality = QualityConfig(**manifest["options"]["quality"])
        renew_report(quality, manifest["graph_name"], output)
        renew_manifest(manifest, output)
    return probed
