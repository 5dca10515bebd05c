"""Several trainers on a machine: ``trainer_id`` in the partitions, as DGL's own partitioner leaves it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from partition_ops.errors import InvalidInputError
from partition_ops.jobs.options import RunConfig
from partition_ops.jobs.whole_job import run_job
from partition_ops.storage import open_store
from partition_ops.system.dgl_import import import_dgl
from partition_ops.verification import verify_output
from tests.graphs import SmallGraph, Values, library, social
from tests.integration.test_equals_dgl import as_dgl

GRAPHS = {"heterogeneous": library(papers=80), "homogeneous": social()}
PARTS, TRAINERS = 2, 3


def run(graph: SmallGraph, folder: Path, **options: Any) -> Path:
    source, output = open_store(str(graph.write(folder / "in"))), open_store(str(folder / "out"))
    config = RunConfig(num_parts=PARTS, engine="metis", **options)
    run_job(config, source, output)
    report = verify_output(source, output)
    assert report.passed, report.summary()
    return folder / "out/partitions/small.json"


def features(config: Path, part: int) -> dict[str, Any]:
    """Return the trainers of nodes and edges, by DGL's key."""
    loaded = import_dgl().distributed.load_partition(str(config), part)
    return {**loaded[1], **loaded[2]}


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("num_hops", [0, 1, 2])
def test_every_node_and_edge_has_its_trainer(name: str, num_hops: int, tmp_path: Path) -> None:
    graph = GRAPHS[name]
    config = run(graph, tmp_path, num_trainers_per_machine=TRAINERS, num_hops=num_hops)
    import_dgl().distributed.partition_graph(
        as_dgl(graph), "small", PARTS, str(tmp_path / "dgl"), num_trainers_per_machine=TRAINERS
    )
    seen = set()
    for part in range(PARTS):
        ours, theirs = features(config, part), features(tmp_path / "dgl/small.json", part)
        assert {key: value.dtype for key, value in ours.items()} == {
            key: value.dtype for key, value in theirs.items()
        }
        load = import_dgl().data.utils.load_tensors
        nodes = load(str(config.parent / f"part{part}/orig_nids.dgl"))
        edges = load(str(config.parent / f"part{part}/orig_eids.dgl"))
        trainers = {kind: np.load(tmp_path / f"out/assignment/trainers/{kind}.npy") for kind in graph.nodes}
        for kind, ids in nodes.items():
            found = ours[f"{kind}/trainer_id"].numpy()
            np.testing.assert_array_equal(found, trainers[kind][ids.numpy()])
            np.testing.assert_array_equal(found // TRAINERS, part)
            seen |= set(found.tolist())
        for kind, ids in edges.items():
            ends = np.array(graph.edges[kind].dst)[ids.numpy()]
            found = ours[f"{kind}/trainer_id"].numpy()
            np.testing.assert_array_equal(found, trainers[kind.split(":")[2]][ends])
    assert seen == set(range(PARTS * TRAINERS))


def test_one_trainer_needs_no_feature(tmp_path: Path) -> None:
    config = run(GRAPHS["heterogeneous"], tmp_path)
    assert not [key for part in range(PARTS) for key in features(config, part) if "trainer" in key]


def test_partitioned_again_with_one_trainer_nothing_is_left_of_several(tmp_path: Path) -> None:
    run(GRAPHS["heterogeneous"], tmp_path, num_trainers_per_machine=TRAINERS)
    config = run(GRAPHS["heterogeneous"], tmp_path)
    assert not [key for part in range(PARTS) for key in features(config, part) if "trainer" in key]
    assert not list((tmp_path / "out/assignment/trainers").glob("*"))


def test_a_feature_of_that_name_is_refused(tmp_path: Path) -> None:
    graph = GRAPHS["homogeneous"]
    graph = replace(graph, node_values=[Values("_N", "trainer_id", np.zeros(60, np.int64))])
    with pytest.raises(InvalidInputError, match="_N/trainer_id"):
        run(graph, tmp_path, num_trainers_per_machine=TRAINERS)
    assert not (tmp_path / "out").exists()  # at the start


@pytest.mark.parametrize(
    ("key", "check"),
    [
        ("node_feat.dgl:paper/trainer_id", "node-features"),
        ("edge_feat.dgl:paper:cites:paper/trainer_id", "edge-features"),
    ],
)
def test_verify_finds_a_wrong_trainer(key: str, check: str, tmp_path: Path) -> None:
    run(GRAPHS["heterogeneous"], tmp_path, num_trainers_per_machine=TRAINERS)
    file, name = key.split(":", 1)
    path = str(tmp_path / "out/partitions/part1" / file)
    tools = import_dgl().data.utils
    tensors = tools.load_tensors(path)
    tensors[name][0] = 3 + (tensors[name][0] - 2) % TRAINERS
    tools.save_tensors(path, tensors)
    report = verify_output(open_store(str(tmp_path / "in")), open_store(str(tmp_path / "out")))
    failed = {outcome.name: outcome.detail for outcome in report.failed}
    assert "trainer_id" in failed[check]


def test_verify_finds_trainers_of_another_partition(tmp_path: Path) -> None:
    run(GRAPHS["heterogeneous"], tmp_path, num_trainers_per_machine=TRAINERS)
    path = tmp_path / "out/assignment/trainers/paper.npy"
    trainers = np.load(path)
    np.save(path, (trainers + TRAINERS) % (PARTS * TRAINERS))
    report = verify_output(open_store(str(tmp_path / "in")), open_store(str(tmp_path / "out")))
    failed = {outcome.name: outcome.detail for outcome in report.failed}
    assert "has a trainer of another partition" in failed["assignment"]
