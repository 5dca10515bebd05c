"""``probe``: its figures, counted a second time from the artifacts, and the verb."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
import torch

from partition_ops.cli import main
from partition_ops.errors import UsageError
from partition_ops.options.values import build
from partition_ops.stages.probe.options import ProbeConfig
from partition_ops.stages.probe.probe import probe_partitions
from partition_ops.storage import open_store
from partition_ops.system.json_documents import check_document
from partition_ops.train import PartitionedGraph
from tests.graphs import SmallGraph, library, social
from tests.train_graphs import dgl, partitioned

GRAPH = library(papers=90)


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> str:
    return partitioned(GRAPH, tmp_path_factory.mktemp("probe"))


def probe(uri: str, cache: Path, **options: Any) -> dict[str, Any]:
    with open_store(uri) as store:
        return probe_partitions(build(ProbeConfig, options), store, cache=cache).document


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
    assert document["options"]["train_nodes"] == ["paper:train_mask"]
    mask = next(v.array for v in GRAPH.node_values if v.name == "train_mask")
    assert document["total"]["seeds"] == int(mask.sum())
    assert document["options"]["features"] == {"author": ["grid"], "paper": ["feat", "label", "train_mask"]}


def test_batches_have_seeds_of_several_types(output: str, tmp_path: Path) -> None:
    types = {"author": GRAPH.nodes["author"], "venue": GRAPH.nodes["venue"]}
    document = probe(output, tmp_path, train_nodes=(*types,), fanouts=(-1,), batch_size=10**6)
    assert document["options"]["train_nodes"] == [*types]
    assert document["total"]["seeds"] == sum(types.values())
    each = [probe(output, tmp_path, train_nodes=(name,), fanouts=(-1,)) for name in types]
    for figure in ("seeds", "neighbours", "remote_neighbours"):
        assert document["total"][figure] == sum(one["total"][figure] for one in each)
    check_document(document, "probe", where="the probe")


def test_layers_are_those_of_dgls_sampler(output: str, tmp_path: Path) -> None:
    """With full fanouts nothing is drawn by chance."""
    document = probe(output, tmp_path, node_type="venue", fanouts=(-1, -1))
    sampler = dgl.dataloading.NeighborSampler([-1, -1])
    with PartitionedGraph(output, cache=tmp_path) as graph:
        for one in document["partitions"]:
            seeds = torch.from_numpy(graph.book.partid2nids(one["part"], "venue"))
            inputs, _, blocks = sampler.sample(graph, {"venue": seeds})
            assert one["neighbours"] == sum(block.num_edges() for block in blocks)
            assert one["input_rows"] == sum(map(len, inputs.values()))
            owners = [graph.node_partition(nodes, ntype) for ntype, nodes in inputs.items()]
            assert one["remote_rows"] == sum(int((found != one["part"]).sum()) for found in owners)


def test_the_same_seed_gives_the_same_figures(output: str, tmp_path: Path) -> None:
    def figures(seed: int) -> Any:
        return probe(output, tmp_path, fanouts=(2, 2), batch_size=8, batches=2, seed=seed)["partitions"]

    assert figures(1) == figures(1)
    assert figures(1) != figures(2)
    assert all(one["batches"] <= 2 and one["seeds"] <= 16 for one in figures(1))


def test_one_partition_has_nothing_remote(tmp_path: Path) -> None:
    graph: SmallGraph = social()
    document = probe(partitioned(graph, tmp_path, num_parts=1), tmp_path / "cache", fanouts=(-1, -1))
    total = document["total"]
    assert total["neighbours"] > 0
    assert total["remote_neighbours"] == total["remote_rows"] == total["remote_bytes"] == 0


def test_the_verb_adds_to_the_report(output: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = contents(output)
    arguments = ["probe", output, "--cache", str(tmp_path), "--fanout", "3", "2", "--part", "1"]
    assert main([*arguments, "--no-report"]) == 0
    assert "remote neighbours" in capsys.readouterr().out
    assert contents(output) == before
    assert main([*arguments, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["options"]["fanouts"] == [3, 2] and document["batches_per_second"]["all"] > 0
    report = json.loads(Path(f"{output}/quality/report.json").read_text())
    assert [one["part"] for one in report["probe"]["partitions"]] == [1]
    assert report["probe"]["total"] == document["total"]
    page = Path(f"{output}/quality/report.html").read_text()
    assert f"{document['total']['remote_neighbour_share']:.2%}</b>remote neighbours" in page
    assert Path(f"{output}/quality/../records/batches.svg").exists() and "../records/batches.svg" in page
    assert main(["verify", str(Path(output).parent / "input"), output]) == 0
    changed = {key for key, data in contents(output).items() if before.get(key) != data}
    assert changed == {"manifest.json", *(f"quality/{name}" for name in QUALITY)}


QUALITY = ("probe.json", "report.html", "report.json")


def test_wrong_use_of_the_verb(output: str, tmp_path: Path) -> None:
    assert main(["probe", output, "--part", "7", "--cache", str(tmp_path)]) == 2
    assert main(["probe", output, "--batches", "0"]) == 2
    assert main(["probe", output, "--feature", "colour", "--cache", str(tmp_path)]) == 2
    (tmp_path / "empty").mkdir()
    assert main(["probe", str(tmp_path / "empty")]) == 3
    assert (
        main(["run", "nowhere", str(tmp_path / "out"), "--num-parts", "2", "--num-hops", "0", "--probe"]) == 2
    )


def contents(folder: str) -> dict[str, bytes]:
    """All files but those that hold times."""
    root = Path(folder)
    files = {str(path.relative_to(root)): path for path in root.rglob("*") if path.is_file()}
    return {key: path.read_bytes() for key, path in files.items() if not key.startswith("records/")}


def test_with_the_job_or_after_it_the_bytes_are_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = str(GRAPH.write(tmp_path / "input"))
    arguments = ["run", source, str(tmp_path / "at_once"), "--num-parts", "3", "--engine", "random"]
    arguments += ["--on-defect", "warn"]
    assert main([*arguments, "--probe"]) == 0
    assert "remote neighbours   " in capsys.readouterr().out
    expected = contents(str(tmp_path / "at_once"))
    manifest = json.loads(expected["manifest.json"])
    assert "quality/probe.json" in {entry["key"] for entry in manifest["artifacts"]}
    assert manifest["options"]["probe"]["fanouts"] == [10, 10]
    assert "batches_per_second" not in expected["quality/report.json"].decode()
    assert main([*arguments, "--probe"]) == 0
    assert main(arguments) == 0  # does not take away what is there
    assert contents(str(tmp_path / "at_once")) == expected
    arguments[2] = later = str(tmp_path / "later")
    assert main(arguments) == 0
    plain = contents(later)
    assert "probe" not in json.loads(plain["quality/report.json"])
    assert main([*arguments, "--probe"]) == 0
    assert contents(later) == expected
    arguments[2] = by_verb = str(tmp_path / "by_verb")
    assert main(arguments) == 0
    assert main(["probe", by_verb, "--cache", str(tmp_path / "cache")]) == 0
    assert contents(by_verb) == expected


def test_what_was_probed_before_the_partitions_changed_is_forgotten(tmp_path: Path) -> None:
    source = str(GRAPH.write(tmp_path / "input"))
    arguments = ["run", source, str(tmp_path / "out"), "--engine", "random", "--on-defect", "warn"]
    assert main([*arguments, "--num-parts", "3", "--probe"]) == 0
    assert main([*arguments, "--num-parts", "2"]) == 0
    left = contents(str(tmp_path / "out"))
    assert "quality/probe.json" not in left and "probe" not in json.loads(left["quality/report.json"])
    arguments[2] = str(tmp_path / "fresh")
    assert main([*arguments, "--num-parts", "2"]) == 0
    assert contents(str(tmp_path / "fresh"))["manifest.json"] == left["manifest.json"]


def test_wrong_options_are_named() -> None:
    with pytest.raises(UsageError, match=r"--batch-size is out of range.*Found: 0"):
        build(ProbeConfig, {"batch_size": 0})
    with pytest.raises(UsageError, match=r"fanout is out of range.*Found: 10 -2.*-1 for all"):
        build(ProbeConfig, {"fanouts": (10, -2)})
    with pytest.raises(UsageError, match=r"fanout is out of range.*Found: 10 0"):
        build(ProbeConfig, {"fanouts": (10, 0)})
    with pytest.raises(UsageError, match=r"--seed is out of range.*Found: -1"):
        ProbeConfig(seed=-1)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--node-type", "nope"], "one of 'author', 'paper', 'venue'"),
        (["--train-nodes", "nope"], "one of 'author', 'paper', 'venue'"),
        (["--train-nodes", "paper:nope"], "'train_mask'"),
        (["--train-nodes", "paper:feat"], "one boolean or number a node"),
        (["--train-nodes", "paper", "--node-type", "author"], "Use --train-nodes author"),
        (["--feature", "nope"], "'feat'"),
        (["--part", "7"], "0 to "),
    ],
)
def test_what_the_graph_does_not_have_is_wrong_use(
    output: str, options: list[str], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["probe", output, "--no-report", *options]) == 2
    assert expected in capsys.readouterr().err
