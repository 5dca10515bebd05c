"""An output of partition_ops 0.1.0 can be verified, fetched, trained on and continued.

``tests/golden/old_output`` was written by ``run old_input old_output --num-parts 2``. Do not renew it.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

from partition_ops import __version__
from partition_ops.system.dgl_import import import_dgl
from partition_ops.train import PartitionedGraph
from tests.golden.make_same_bytes import GOLDEN, call
from tests.golden.same_bytes_graphs import grown_graph, tiny_graph
from tests.train_graphs import edges_of, in_memory, same_bits


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """Return a folder with copies of ``old_input`` and ``old_output``."""
    for name in ("old_input", "old_output"):
        shutil.copytree(GOLDEN.parent / name, tmp_path / name)
    return tmp_path


def test_its_partitions_can_be_fetched(old: Path) -> None:
    assert call("fetch @old_output --part 1 --to @fetched", old) == 0
    for key in ("tiny.json", "part1/graph.dgl", "part1/node_feat.dgl", "part1/edge_feat.dgl"):
        assert (old / "fetched" / key).read_bytes() == (old / "old_output/partitions" / key).read_bytes()


def test_its_id_maps_restore_rows(old: Path) -> None:
    ids = pq.read_table(old / "old_output/idmap/nodes/paper.parquet").column("orig_id").to_numpy()
    np.save(old / "rows.npy", ids)
    words = "idmap restore @old_output --node-type paper --input @rows.npy --output @restored.npy"
    assert call(words, old) == 0
    assert np.load(old / "restored.npy").tolist() == [*range(len(ids))]


def test_it_is_a_graph_to_train_on(old: Path) -> None:
    graph = tiny_graph()
    with PartitionedGraph(str(old / "old_output"), ids="new", cache=old / "cache") as found:
        expected = in_memory(graph, found.book)
        everyone = {ntype: torch.arange(found.num_nodes(ntype)) for ntype in found.ntypes}
        assert edges_of(found.in_subgraph(everyone), is_block=False) == edges_of(
            import_dgl().in_subgraph(expected, everyone), is_block=False
        )
        for value in graph.node_values:
            rows = found.get_node_storage(value.name, value.type_name).fetch(everyone[value.type_name], "cpu")
            assert same_bits(rows, expected.nodes[value.type_name].data[value.name])


def test_a_run_continues_it(old: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("changes @old_input @old_output --json", old) == 0
    assert json.loads(capsys.readouterr().out)["unchanged_since"]
    grown_graph(tiny_graph()).write(old / "grown")
    assert call("run @grown @new --num-parts 2 --previous @old_output", old) == 0
    migration = json.loads((old / "new/assignment/migration.json").read_text())
    counts = {name: (one["old"], one["new"]) for name, one in migration["node_types"].items()}
    assert counts == {"author": (5, 0), "paper": (24, 2)}
    assert call("verify @grown @new", old) == 0


def test_a_stage_on_top_of_it_is_rejected_and_leaves_it_finished(
    old: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call("quality @old_input --output @old_output", old) == 3
    message = capsys.readouterr().err
    assert "written by version 0.1.0" in message and f"this is {__version__}" in message
    assert (old / "old_output/manifest.json").exists()
    assert call("verify @old_input @old_output", old) == 0
