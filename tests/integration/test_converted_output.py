"""An output of ``convert-partition`` is one like that of a run: book, ID maps, records and manifest."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from partition_ops import PartitionBook, PartitionedGraph, open_store, run, verify
from partition_ops.cli import main
from partition_ops.system.dgl_import import import_dgl
from tests.graphs import Edges, SmallGraph, library
from tests.parmetis import attribute_table, offsets, parmetis_output, pm_dglpart, schema
from tests.train_graphs import edges_of, in_memory

PARTS = 3


def doubled(graph: SmallGraph) -> SmallGraph:
    """Return a graph with duplicates and a self-loop."""
    cites = graph.edges["paper:cites:paper"]
    more = Edges([*cites.src, *cites.src[:5], 3], [*cites.dst, *cites.dst[:5], 3])
    return replace(graph, edges={**graph.edges, "paper:cites:paper": more}, edge_values=[])


def call(folder: Path, *options: str, output: str = "out") -> int:
    words = ["convert-partition", "--input-dir", f"{folder}/text/prepare", "--graph-name", "small"]
    words += ["--schema", f"{folder}/schema.json", "--num-parts", str(PARTS), "--num-node-weights", "3"]
    return main([*words, "--output", f"{folder}/{output}", *options])


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a graph, its text with attributes, partitions in text, and a conversion."""
    folder = tmp_path_factory.mktemp("converted")
    graph = doubled(library())
    graph.write(folder / "in")
    words = ["prepare", str(folder / "in"), "--output", str(folder / "text"), "--format", "parmetis"]
    assert main([*words, "--attributes", "feat", "--attributes", "label"]) == 0
    (folder / "schema.json").write_text(json.dumps(schema(graph, plain=True)))
    pm_dglpart(folder / "text" / "prepare", "small", PARTS)
    assert call(folder, "--node-attr-dtype", "float64") == 0
    assert call(folder, output="plain") == 0
    return folder


@pytest.fixture
def converted(prepared: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(prepared, tmp_path / "copy"))


def test_the_partition_book_knows_every_node(tmp_path: Path) -> None:
    graph = library()
    output = parmetis_output(graph, PARTS)  # the nodes of a type are in any order
    output.write(tmp_path / "text" / "prepare")
    (tmp_path / "schema.json").write_text(json.dumps(schema(graph)))
    assert call(tmp_path) == 0
    with PartitionBook(open_store(str(tmp_path / "out"))) as book:
        total = np.arange(len(output.parts))
        old = np.argsort(output.new_ids)
        assert book.nid2partid(total).tolist() == output.parts[old].tolist()
        types, typed = book.map_to_per_ntype(total)
        for type_id, (name, begin) in enumerate(offsets(graph).items()):
            mine = np.flatnonzero(types == type_id)
            assert book.nid_new2orig(typed[mine], name).tolist() == (old[mine] - begin).tolist()
    graph.write(tmp_path / "in")
    report = verify(tmp_path / "in", tmp_path / "out")
    assert report.passed, report.failed


def test_it_is_a_graph_to_train_on(prepared: Path) -> None:
    graph = doubled(library())
    with PartitionedGraph(str(prepared / "out"), ids="original") as found:
        expected = in_memory(graph, None)
        everyone = {ntype: torch.arange(found.num_nodes(ntype)) for ntype in found.ntypes}
        assert edges_of(found.in_subgraph(everyone), is_block=False) == edges_of(
            import_dgl().in_subgraph(expected, everyone), is_block=False
        )
        rows = attribute_table(graph.node_values, graph.nodes, ["feat", "label"])
        for name, values in rows.items():
            stored = found.get_node_storage("feat", name).fetch(everyone[name], "cpu")
            np.testing.assert_array_equal(stored.numpy(), values)


def test_verify_compares_it_with_the_text_and_with_the_graph(converted: Path) -> None:
    text = converted / "text" / "prepare"
    for source, output in ((text, "out"), (text, "plain"), (converted / "in", "plain")):
        report = verify(source, converted / output)
        assert report.passed, report.failed
    assert main(["verify", str(converted / "in"), str(converted / "out")]) == 2  # it has attributes
    edges = (text / "small_edges.txt").read_text().splitlines()
    first, second = (line.split() for line in edges[:2])
    edges[0] = " ".join([first[0], second[1], *first[2:]])
    (text / "small_edges.txt").write_text("\n".join(edges) + "\n")
    report = verify(text, converted / "plain")
    assert not report.passed
    assert any(one.name in ("edges", "endpoints", "edge-id-maps", "edge-ranges") for one in report.failed)


def test_verify_finds_a_changed_file(converted: Path) -> None:
    path = converted / "plain" / "part1" / "orig_nids.dgl"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    assert not verify(converted / "in", converted / "plain").passed


def test_fetch_copies_a_partition_that_dgl_loads(prepared: Path, tmp_path: Path) -> None:
    assert main(["fetch", str(prepared / "out"), "--part", "1", "--to", str(tmp_path / "host")]) == 0
    names = sorted(path.name for path in (tmp_path / "host").iterdir())
    assert names == ["part1", "partition-ops.json", "small.json"]
    loaded = import_dgl().distributed.load_partition(str(tmp_path / "host" / "small.json"), 1)
    assert loaded[0].num_nodes() and "paper/feat" in loaded[1]


def test_idmap_and_publish_work_on_it(converted: Path) -> None:
    source, output = str(converted / "in"), str(converted / "plain")
    rows = np.arange(40 * 2).reshape(40, 2)
    np.save(converted / "rows.npy", rows)
    words = ["idmap", "restore", output, "--node-type", "paper", "--input", str(converted / "rows.npy")]
    assert main([*words, "--output", str(converted / "restored.npy")]) == 0
    with PartitionBook(open_store(output)) as book:
        order = book.nid_new2orig(np.arange(40), "paper")
    np.testing.assert_array_equal(np.load(converted / "restored.npy")[order], rows)
    assert main(["idmap", "export", source, "--output", output, "--vectors", "--part-maps"]) == 0
    assert not (converted / "plain" / "manifest.json").exists()
    assert main(["quality", source, "--output", output]) == 0
    assert main(["publish", source, "--output", output]) == 0
    assert verify(source, output).passed
    assert main(["idmap", "export", f"{converted}/text/prepare", "--output", output]) == 3  # other types
    assert verify(source, output).passed


def test_the_quality_report_is_that_of_a_run_with_the_assignment(prepared: Path, tmp_path: Path) -> None:
    source, out = str(prepared / "in"), str(tmp_path / "out")
    assert main(["validate", source, "--output", out, "--no-data-docs", "--on-defect", "warn"]) == 0
    words = ["convert", source, "--output", out, "--assignment", f"{prepared}/text/prepare"]
    assert main([*words, "--parmetis-parts", str(PARTS), "--num-node-weights", "3"]) == 0
    assert main(["idmap", source, "--output", out]) == 0
    assert main(["quality", source, "--output", out]) == 0
    found, expected = (
        json.loads((folder / "quality" / "report.json").read_text())
        for folder in (prepared / "plain", Path(out))
    )
    for key in ("edge_cut", "replication_factor", "communication_volume", "node_types", "edge_types"):
        assert found[key] == expected[key], key
    for one, other in zip(found["partitions"], expected["partitions"], strict=True):
        assert {**one, "bytes": 0} == {**other, "bytes": 0}
        assert one["bytes"] > 10_000


def test_a_run_follows_it(prepared: Path, tmp_path: Path) -> None:
    result = run(
        prepared / "in", tmp_path / "out", num_parts=PARTS, previous=prepared / "plain", on_defect="warn"
    )
    kept = result.quality["migration"]["node_types"]["paper"]
    assert kept["old"] == 40 and kept["moved"] < 40
    assert verify(prepared / "in", tmp_path / "out").passed


def test_what_is_done_is_not_done_again(converted: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(converted, output="plain") == 0  # the copy of the text counts as another one
    capsys.readouterr()
    assert call(converted, output="plain") == 0
    assert capsys.readouterr().out.count("as before") == 4
    (converted / "plain" / "part0" / "graph.dgl").unlink()
    assert call(converted, output="plain") == 0
    assert "as before" not in capsys.readouterr().out.splitlines()[0]
    assert verify(converted / "in", converted / "plain").passed


def test_removed_edges_of_any_name_are_put_back(converted: Path) -> None:
    text = converted / "text" / "prepare"
    (text / "small_removed_edges.txt").rename(text / "left_out.txt")
    assert call(converted, output="other") == 3  # edges are missing
    assert call(converted, "--removed-edges", "left_out.txt", output="other") == 0
    for name in ("graph.dgl", "orig_eids.dgl"):
        assert (converted / "other/part1" / name).read_bytes() == (
            converted / "plain/part1" / name
        ).read_bytes()
    assert call(converted, "--removed-edges", "nowhere.txt", output="third") == 3
    assert verify(text, converted / "other").passed


def test_the_feature_has_the_name_that_is_asked_for(converted: Path) -> None:
    options = ["--node-attr-dtype", "float32", "--attribute-name", "x"]
    assert call(converted, *options, output="named") == 0
    feats = import_dgl().data.utils.load_tensors(str(converted / "named/part0/node_feat.dgl"))
    assert set(feats) == {f"{name}/x" for name in library().nodes}
    assert verify(converted / "text" / "prepare", converted / "named").passed


def test_missing_edges_cannot_be_verified(converted: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (converted / "text/prepare/small_removed_edges.txt").unlink()
    assert call(converted, "--missing-edges", "accept", output="fewer") == 0
    assert PartitionedGraph(str(converted / "fewer")).num_edges("cites") == 147
    capsys.readouterr()
    assert main(["verify", str(converted / "in"), str(converted / "fewer")]) == 2
    assert "6 missing edges" in capsys.readouterr().err


def test_the_output_of_a_run_is_refused(converted: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(converted / "in", converted / "run", num_parts=2, engine="random", on_defect="warn")
    before = (converted / "run" / "manifest.json").read_bytes()
    assert call(converted, output="run") == 2
    assert "is the output of a run" in capsys.readouterr().err
    assert (converted / "run" / "manifest.json").read_bytes() == before
