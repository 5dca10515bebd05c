"""``partition-ops probe``."""

from __future__ import annotations

import argparse
from contextlib import nullcontext
from typing import Any

from partition_ops.artifacts import layout
from partition_ops.cli import common
from partition_ops.cli.console import Console
from partition_ops.cli.text_tables import table

NAME = "probe"
SUMMARY = "sample as trainers would: how much they fetch from other partitions"
DESCRIPTION = """\
Sample mini-batches as the trainer of each partition would: the share of remote neighbours, the bytes of
features that a batch fetches from other partitions, and the batches a second that this machine samples. The
figures go to quality/probe.json and into the quality report below OUTPUT, and the manifest is renewed. The
graph is not loaded; what sampling needs is made once, in a cache."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "output",
        metavar="OUTPUT",
        help="root of the output, or of a graph whose newest run it is; a folder or s3://…",
    )
    parser.add_argument("--no-report", action="store_true", help="show the figures only, and write nothing")
    parser.add_argument("--part", metavar="I", type=int, nargs="+", help="partitions to probe (default: all)")
    parser.add_argument(
        "--node-type",
        metavar="T",
        help="type of the seeds (default: the one with train_mask, else the one with most nodes)",
    )
    parser.add_argument(
        "--fanout",
        metavar="N",
        type=int,
        nargs="+",
        default=[10, 10],
        help="for each layer, the edges of each type sampled for a node; -1 means all (default 10 10)",
    )
    parser.add_argument("--batch-size", metavar="N", type=int, default=1024, help="seeds (default 1024)")
    parser.add_argument("--batches", metavar="N", type=int, default=20, help="a partition (default 20)")
    parser.add_argument(
        "--feature", metavar="NAME", nargs="+", help="node features that a batch fetches (default: all)"
    )
    parser.add_argument("--seed", metavar="N", type=int, default=0, help="of what is drawn (default 0)")
    parser.add_argument(
        "--cache",
        metavar="DIR",
        help="folder of the cache (default: ~/.cache/partition-ops/train)",
    )


def execute(arguments: argparse.Namespace, console: Console) -> Any:
    from partition_ops.stages.probe.options import ProbeConfig
    from partition_ops.stages.probe.published import probe_published

    config = ProbeConfig(
        node_type=arguments.node_type,
        fanouts=tuple(arguments.fanout),
        batch_size=arguments.batch_size,
        batches=arguments.batches,
        features=None if arguments.feature is None else tuple(arguments.feature),
        seed=arguments.seed,
        parts=None if arguments.part is None else tuple(arguments.part),
    )
    cache = None if arguments.cache is None else common.local_folder(arguments.cache, "--cache")
    with (
        common.open_run(arguments.output, arguments) as output,
        nullcontext() if arguments.no_report else common.alone_in(output),
    ):
        probed = probe_published(
            config,
            output,
            report=not arguments.no_report,
            cache=cache,
            progress=common.progress(arguments),
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
