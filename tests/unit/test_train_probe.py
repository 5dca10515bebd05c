"""``probe``: its figures, counted a second time from the artifacts, and the verb."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from partition_ops.cli import main
from partition_ops.documents import check_document
from partition_ops.errors import UsageError
from partition_ops.storage import open_store
from partition_ops.train.probe import ProbeConfig, probe_partitions
from tests.graphs import SmallGraph, library, social
from tests.train_graphs import dgl, partitioned

GRAPH = library(papers=90)


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> str:
    return partitioned(GRAPH, tmp_path_factory.mktemp("probe"))


def probe(uri: str, cache: Path, **options: Any) -> dict[str, Any]:
    with open_store(uri) as store:
        return probe_partitions(ProbeConfig(**options), store, cache=cache)


def test_all_neighbours_of_one_layer_are_the_edges_of_the_partitions(output: str, tmp_path: Path) -> None:
    """With a full fanout and every node a seed, remote neighbours are the cut edges and remote rows halos."""
    document = probe(output, tmp_path, node_type="venue", fanouts=(-1,), features=("feat",))
    stats = [json.loads(Path(f"{output}/partitions/part{p}/stats.json").read_text()) for p in range(3)]
    for one, known in zip(document["partitions"], stats, strict=True):
        assert one["seeds"] == known["inner_nodes"]["venue"]
        assert one["neighbours"] == known["edges"]["paper:in:venue"]
        assert one["remote_neighbours"] == known["cut_edges"]["paper:in:venue"]
        local = dgl.load_graphs(f"{output}/partitions/part{one['part']}/graph.dgl")[0][0]
        sources = local.edges()[0][local.edata["_TYPE"] == 2].unique()
        halo = int((local.ndata["inner_node"][sources] == 0).sum())
        assert one["remote_rows"] == halo
        assert one["remote_bytes"] == halo * 8 * 4  # eight float32 a paper, and nothing of the venues
    assert document["total"]["neighbours"] == len(GRAPH.edges["paper:in:venue"].src)
    check_document(document, "probe", where="the probe")
    config = Path(f"{output}/partitions/small.json").read_bytes()
    assert document["partition_config_sha256"] == hashlib.sha256(config).hexdigest()


def test_seeds_are_those_of_the_mask(output: str, tmp_path: Path) -> None:
    document = probe(output, tmp_path)
    assert document["options"]["node_type"] == "paper"
    mask = next(v.array for v in GRAPH.node_values if v.name == "train_mask")
    assert document["total"]["seeds"] == int(mask.sum())
    assert document["options"]["features"] == {"author": ["grid"], "paper": ["feat", "label", "train_mask"]}


def test_the_same_seed_gives_the_same_figures(output: str, tmp_path: Path) -> None:
    def figures(seed: int) -> Any:
        found = probe(output, tmp_path, fanouts=(2, 2), batch_size=8, batches=2, seed=seed)["partitions"]
        return [{key: value for key, value in one.items() if key != "batches_per_second"} for one in found]

    assert figures(1) == figures(1)
    assert figures(1) != figures(2)
    assert all(one["batches"] <= 2 and one["seeds"] <= 16 for one in figures(1))


def test_one_partition_has_nothing_remote(tmp_path: Path) -> None:
    graph: SmallGraph = social()
    document = probe(partitioned(graph, tmp_path, num_parts=1), tmp_path / "cache", fanouts=(-1, -1))
    total = document["total"]
    assert total["neighbours"] > 0 and total["batches_per_second"] > 0
    assert total["remote_neighbours"] == total["remote_rows"] == total["remote_bytes"] == 0


def test_the_verb(output: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["probe", output, "--cache", str(tmp_path), "--fanout", "3", "2", "--part", "1"]
    assert main(arguments) == 0
    assert "remote neighbours" in capsys.readouterr().out
    written = json.loads(Path(f"{output}/quality/probe.json").read_text())
    assert [one["part"] for one in written["partitions"]] == [1]
    assert main([*arguments, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["options"]["fanouts"] == [3, 2]
    assert main(["verify", str(Path(output).parent / "input"), output]) == 0  # it is still what was published
    assert main(["probe", output, "--part", "7", "--cache", str(tmp_path)]) == 2
    assert main(["probe", output, "--batches", "0"]) == 2
    assert main(["probe", output, "--feature", "colour", "--cache", str(tmp_path)]) == 2
    assert main(["probe", str(tmp_path)]) == 3


def test_wrong_options_are_named() -> None:
    with pytest.raises(UsageError, match=r"batch_size is too small.*Found: 0"):
        ProbeConfig(batch_size=0)
    with pytest.raises(UsageError, match="fanouts are wrong"):
        ProbeConfig(fanouts=(-2,))
