"""``python -m examples.training OUTPUT``, from the root of the repository."""

from __future__ import annotations

import argparse
from pathlib import Path

from examples.training.models import CONVOLUTIONS
from examples.training.train import in_memory, split, train
from partition_ops.train import PartitionedGraph


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m examples.training",
        description="Train on a finished output of the Python environment, without loading the graph.",
    )
    parser.add_argument("output", metavar="OUTPUT", help="root of the output, a folder or s3://…")
    parser.add_argument("--model", choices=CONVOLUTIONS, default="sage")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--cache", type=Path, help="folder of the cache")
    parser.add_argument("--compare", action="store_true", help="also train on the graph in memory")
    args = parser.parse_args()
    with PartitionedGraph(args.output, cache=args.cache) as graph:
        splits = {name: split(graph, f"{name}_mask") for name in ("train", "test")}
        sides = {"artifacts": graph, **({"memory": in_memory(graph)} if args.compare else {})}
        for name, side in sides.items():
            found = train(side, args.model, splits, epochs=args.epochs)
            print(
                f"{args.model} from {name}: accuracy {found['accuracy']:.3f}, {found['batches']} batches in"
                f" {found['seconds']:.1f} s",
                flush=True,
            )


if __name__ == "__main__":
    main()
