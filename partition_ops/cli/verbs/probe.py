"""``partition-ops probe``."""

from __future__ import annotations

import argparse
from contextlib import nullcontext
from typing import Any

from partition_ops.artifacts import layout
from partition_ops.cli.console import Console
from partition_ops.cli.locations import RUN_HELP, open_run
from partition_ops.cli.text_tables import table
from partition_ops.cli.verb import Verb
from partition_ops.options.arguments import config_of
from partition_ops.options.declare import options_of
from partition_ops.stages.probe.options import ProbeConfig
from partition_ops.storage.local_store import LocalStore
from partition_ops.storage.uris import local_folder
from partition_ops.system.progress import terminal_progress


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("output", metavar="OUTPUT", help=RUN_HELP)
    parser.add_argument("--no-report", action="store_true", help="Only print the figures; write nothing.")
    parser.add_argument(
        "--cache", metavar="DIR", help="Folder of the cache. Default: ~/.cache/partition-ops/train."
    )


def execute(arguments: argparse.Namespace, console: Console) -> Any:
    config = config_of(arguments, ProbeConfig)
    cache = None if arguments.cache is None else local_folder(arguments.cache, "--cache")
    from partition_ops.artifacts.lock import locked
    from partition_ops.artifacts.write_access import check_root
    from partition_ops.jobs.probe_published import probe_published

    if cache is not None:
        check_root("probe --cache", LocalStore(cache))
    with (
        open_run(arguments.output, arguments) as output,
        nullcontext() if arguments.no_report else locked(output, "probe"),
    ):
        probed = probe_published(
            config,
            output,
            report=not arguments.no_report,
            cache=cache,
            progress=terminal_progress(),
        )
        page = output.uri_of(layout.QUALITY_PAGE)
    speeds = probed.by_partition | {"all": probed.batches_per_second}
    for line in table(_rows(probed.document, speeds)):
        console.line(line)
    if not arguments.no_report:
        console.line()
        console.line(f"quality page  {page}")
    return probed.document | {"batches_per_second": speeds}


def _rows(document: dict[str, Any], speeds: dict[str, float]) -> list[list[str]]:
    rows = [["partition", "seeds", "batches", "remote neighbours", "remote MiB a batch", "batches/s"]]
    for one in [*document["partitions"], document["total"]]:
        name = str(one.get("part", "all"))
        rows.append(
            [
                name,
                f"{one['seeds']:,}",
                f"{one['batches']:,}",
                f"{one['remote_neighbour_share']:.2%}",
                f"{one['remote_bytes_per_batch'] / 2**20:.2f}",
                f"{speeds[name]:.1f}",
            ]
        )
    return rows


VERB = Verb(
    description="""\
Sample mini-batches as the trainer of each partition would, and measure the share of remote neighbours, the
bytes of features that a batch fetches from other partitions, and the batches a second on this machine. The
figures are written to quality/probe.json and into the quality report below OUTPUT, and the manifest is
renewed. The graph is not loaded; a cache is made once for sampling.""",
    add_arguments=add_arguments,
    options=(ProbeConfig,),
    only={one.name for one in options_of(ProbeConfig)} - {"graph_name"},
    execute=execute,
)
