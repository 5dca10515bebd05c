"""Probe a run that is published, and update its quality report and its manifest."""

from __future__ import annotations

from pathlib import Path

from partition_ops.artifacts import layout
from partition_ops.artifacts.manifest import read_manifest
from partition_ops.options.values import build, parse_settings
from partition_ops.stages.probe.options import ProbeConfig
from partition_ops.stages.probe.probe import Probed, probe_partitions, probe_task
from partition_ops.stages.publish.publish import expected_manifest
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

    Partitions and all other artifacts stay as they are. The output has no manifest while the report is
    written; if the process is killed then, the verb ``publish`` writes the manifest.

    Args:
        config: Sampling options; ``graph_name`` is not used.
        output: Root of a finished output.
        report: Add the figures to the report; otherwise nothing is written to the output.
        cache: Folder of the cache.
        progress: Shows the partitions.

    Raises:
        InvalidInputError: The output is not finished; or the report is to be written, and a task of the
            output is out of date, for example because another version of this package did it.
        UsageError: There is no such partition, node type or feature.

    Peak memory: as `partition_ops.stages.probe.probe.probe_run`.
    """
    manifest = read_manifest(output)
    name, uri = manifest["graph_name"], manifest["input"]["uri"]
    if report:
        expected_manifest(name, uri, output)  # refuses an output that could not be published again
    probed = probe_partitions(config, output, cache=cache, progress=progress)
    if report:
        options = config.options() | {"graph_name": manifest["options"][layout.CONFIG_TASK]["graph_name"]}
        probe_task(output, probed.document["num_parts"], options, lambda: probed).run()
        reported = parse_settings(QualityConfig, manifest["options"]["quality"])
        renew_report(build(QualityConfig, reported), name, output)
        output.write_json(layout.MANIFEST, expected_manifest(name, uri, output))
    return probed
