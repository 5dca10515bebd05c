"""The example learns from an output on S3 what it learns from the same graph in memory."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from examples.training.train import in_memory, split, train
from partition_ops.jobs.options import RunConfig
from partition_ops.jobs.whole_job import run_job
from partition_ops.storage import StorageSettings, open_store
from partition_ops.train import PartitionedGraph
from tests.graphs import Edges, SmallGraph, Values

FUNCTIONS, MODULES, CLASSES, LABELS = 1500, 120, 60, 4
EPOCHS = 25


def planted() -> SmallGraph:
    """A function's label is that of its module, which only the module's features tell."""
    rng = np.random.default_rng(0)
    of_module = rng.integers(0, LABELS, MODULES)
    module = rng.integers(0, MODULES, FUNCTIONS)
    label = of_module[module]
    features = np.eye(8, dtype=np.float32)[of_module] + rng.normal(0, 0.2, (MODULES, 8)).astype(np.float32)
    part = rng.random(FUNCTIONS)
    return SmallGraph(
        {"module": MODULES, "class": CLASSES, "function": FUNCTIONS},
        {
            "module:defines_function:function": Edges(module.tolist(), list(range(FUNCTIONS))),
            "function:calls:function": Edges(list(range(FUNCTIONS)), rng.permutation(FUNCTIONS).tolist()),
            "class:has_method:function": Edges(list(range(CLASSES)), list(range(CLASSES))),
        },
        node_values=[
            Values("module", "feat", features),
            Values("class", "words", rng.random((CLASSES, 4), np.float32)),
            Values("function", "feat", rng.random((FUNCTIONS, 6), np.float32)),
            Values("function", "label", label),
            Values("function", "train_mask", part < 0.7),
            Values("function", "test_mask", part >= 0.7),
        ],
    )


@pytest.mark.parametrize("kind", ["sage", "rgcn"])
def test_the_same_accuracy_as_in_memory(
    s3_root: str, s3_settings: StorageSettings, kind: str, tmp_path: Path
) -> None:
    with (
        open_store(str(planted().write(tmp_path / "input"))) as source,
        open_store(s3_root, s3_settings) as out,
    ):
        run_job(RunConfig(num_parts=2, engine="random", on_defect="warn"), source, out)
        with PartitionedGraph(out, cache=tmp_path / "cache") as graph:
            splits = {name: split(graph, f"{name}_mask") for name in ("train", "test")}
            found = train(graph, kind, splits, epochs=EPOCHS)["accuracy"]
            assert graph.blocks.requests > 0
            expected = train(in_memory(graph), kind, splits, epochs=EPOCHS)["accuracy"]
    assert found > 0.9  # guessing gives a quarter
    assert abs(found - expected) < 0.05
