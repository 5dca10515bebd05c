"""``partition-ops probe``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from partition_ops.commands import common
from partition_ops.commands.console import Console
from partition_ops.commands.tables import table

NAME = "probe"
SUMMARY = "sample as trainers would: how much they fetch from other partitions"
DESCRIPTION = """\
Sample mini-batches as the trainer of each partition would, and write quality/probe.json below OUTPUT: the
share of remote neighbours, the bytes of features that a batch fetches from other partitions, and the batches
a second that this machine samples. The graph is not loaded; what sampling needs is made once, in a cache."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "output",
        metavar="OUTPUT",
        help="root of the output, or of a graph whose newest run it is; a folder or s3://…",
    )
    parser.add_argument("--part", metavar="I", type=int, nargs="+", help="partitions to probe (default: all)")
    parser.add_argument(
        "--node-type",
        metavar="T",
        help="type of the seeds (default: the one with train_mask, else the one with most nodes)",
    )
    parser.add_argument(
        "--fanout", metavar="N", type=int, nargs="+", default=[10, 10], help="for each layer (default 10 10)"
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
        type=Path,
        help="folder of the cache (default: ~/.cache/partition-ops/train)",
    )


def execute(arguments: argparse.Namespace, console: Console) -> Any:
    from partition_ops.train.probe import ProbeConfig, probe_partitions, write_probe

    config = ProbeConfig(
        node_type=arguments.node_type,
        fanouts=tuple(arguments.fanout),
        batch_size=arguments.batch_size,
        batches=arguments.batches,
        features=None if arguments.feature is None else tuple(arguments.feature),
        seed=arguments.seed,
    )
    with common.open_run(arguments.output, arguments) as output:
        document = probe_partitions(
            config, output, parts=arguments.part, cache=arguments.cache, progress=common.progress(arguments)
        )
        written = write_probe(document, output)
    for line in table(_rows(document)):
        console.line(line)
    console.line()
    console.line(f"probe  {written}")
    return document


def _rows(document: dict[str, Any]) -> list[list[str]]:
    rows = [["partition", "seeds", "batches", "remote neighbours", "remote MiB a batch", "batches/s"]]
    for one in [*document["partitions"], document["total"]]:
        rows.append(
            [
                str(one.get("part", "all")),
                f"{one['seeds']:,}",
                f"{one['batches']:,}",
                f"{one['remote_neighbour_share']:.2%}",
                f"{one['remote_bytes_per_batch'] / 2**20:.2f}",
                f"{one['batches_per_second']:.1f}",
            ]
        )
    return rows
