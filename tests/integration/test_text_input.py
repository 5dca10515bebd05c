"""ParMETIS's text as the input of a run: the same graph as the chunks that it was written from."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from partition_ops import run, verify
from partition_ops.chunked.edges import EdgeReader
from partition_ops.chunked.feature_reader import feature_readers
from partition_ops.chunked.metadata import load_metadata
from partition_ops.cli import main
from partition_ops.errors import InvalidInputError
from partition_ops.formats.parmetis.graph_store import as_graph
from partition_ops.storage import Store, open_store
from tests.graphs import SHAPES, Edges, SmallGraph, library
from tests.parmetis import attribute_table, schema

TOY_NODES = ["0 1 0 0", "0 1 0 1", "0 1 0 2", "1 0 1 0", "1 0 1 1", "1 0 1 2", "1 0 1 3"]
TOY_EDGES = ["0 3 0 0", "5 6 0 1", "1 4 1 0"]  # not in the order of the types


def doubled(graph: SmallGraph) -> SmallGraph:
    """Return a graph with duplicates and a self-loop, which `prepare` puts into another file."""
    cites = graph.edges["paper:cites:paper"]
    more = Edges([*cites.src, *cites.src[:5], 3], [*cites.dst, *cites.dst[:5], 3])
    return replace(graph, edges={**graph.edges, "paper:cites:paper": more}, edge_values=[])


def text_of(graph: SmallGraph, folder: Path, *options: str, names: bool = True) -> Path:
    """Return the folder with the text of a graph, and with its schema if it has names."""
    graph.write(folder / "in")
    out = folder / "text"
    call = ["prepare", str(folder / "in"), "--output", str(out), "--format", "parmetis", *options]
    assert main(call) == 0
    if names:
        (out / "prepare" / f"{graph.name}.json").write_text(json.dumps(schema(graph, plain=True)))
    return out / "prepare"


def toy(
    folder: Path, nodes: list[str] = TOY_NODES, edges: list[str] = TOY_EDGES, stats: str = "7 3 2"
) -> Store:
    for name, lines in (("nodes", nodes), ("edges", edges), ("stats", [stats])):
        (folder / f"toy_{name}.txt").write_text("".join(f"{line}\n" for line in lines))
    return open_store(str(folder))


def edges_of(store: Store) -> dict[str, list[tuple[int, int]]]:
    metadata = load_metadata(store)
    reader = EdgeReader(store, metadata)
    found: dict[str, list[tuple[int, int]]] = {str(edge_type): [] for edge_type in metadata.edge_types}
    for chunk in reader.chunks():
        for block in reader.blocks(chunk):
            pairs = zip(block.src.tolist(), block.dst.tolist(), strict=True)
            found[str(metadata.edge_types[chunk.edge_type_id])] += pairs
    return found


@pytest.mark.parametrize("name", ["library", *SHAPES])
def test_the_graph_is_the_one_that_was_written(name: str, tmp_path: Path) -> None:
    graph = doubled(library()) if name == "library" else SHAPES[name]
    text = text_of(graph, tmp_path, names=False)
    (text / f"{graph.name}.json").write_text(json.dumps(schema(graph)))
    with as_graph(open_store(str(text))) as found, open_store(str(tmp_path / "in")) as expected:
        metadata, original = load_metadata(found), load_metadata(expected)
        assert metadata.graph_name == graph.name
        assert (metadata.node_types, metadata.num_nodes) == (original.node_types, original.num_nodes)
        assert (metadata.edge_types, metadata.num_edges) == (original.edge_types, original.num_edges)
        assert edges_of(found) == edges_of(expected)
        folder = Path(found.local_copy("metadata.json")).parent
    assert not folder.exists()


def test_attributes_and_weights_become_features(tmp_path: Path) -> None:
    graph = library()
    text = text_of(graph, tmp_path, "--attributes", "feat", "--attributes", "year", "--weights", "degree")
    kinds = {kind: len(edges.src) for kind, edges in graph.edges.items()}
    nodes = attribute_table(graph.node_values, graph.nodes, ["feat"])
    edges = attribute_table(graph.edge_values, kinds, ["year"])
    with as_graph(open_store(str(text))) as found:
        readers = feature_readers(found, load_metadata(found))
        for kind, expected in {**nodes, **edges}.items():
            values = readers[f"{kind}/feat"].take(np.arange(len(expected)))
            assert values.dtype == np.float64
            np.testing.assert_array_equal(values, expected)
        lines = [line.split() for line in (text / "small_nodes.txt").read_text().splitlines()]
        weights = [int(fields[1]) for fields in lines if fields[0] == "1"]
        assert readers["paper/weight1"].take(np.arange(len(weights))).tolist() == weights
        assert len(set(weights)) > 1


def test_attributes_that_are_not_numbers_are_skipped(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The guide allows any values; those of later rows must be numbers if those of the first row are."""
    nodes = [f"{line} {i} word{i}" for i, line in enumerate(TOY_NODES)]
    toy(tmp_path, nodes, [f"{line} {i / 2}" for i, line in enumerate(TOY_EDGES)])
    assert main(["run", str(tmp_path), str(tmp_path / "out"), "--num-parts", "2"]) == 0
    assert "toy_nodes.txt: the attributes are skipped, because some are not numbers" in caplog.text
    assert main(["verify", str(tmp_path), str(tmp_path / "out")]) == 0
    with as_graph(open_store(str(tmp_path))) as found:
        metadata = load_metadata(found)
        assert {*feature_readers(found, metadata)} == {
            f"{edge_type}/feat" for edge_type in map(str, metadata.edge_types)
        }
    with as_graph(toy(tmp_path, [*TOY_NODES[:3], *(f"{line} 1" for line in TOY_NODES[3:])])) as found:
        assert not feature_readers(found, load_metadata(found))
    assert "toy_nodes.txt: the attributes are skipped, because the first row has none" in caplog.text
    with pytest.raises(InvalidInputError, match=r"line 4: the row has 4 fields.*as many attributes as the"):
        as_graph(toy(tmp_path, [*(f"{line} 1" for line in TOY_NODES[:3]), *TOY_NODES[3:]]))
    edges = [f"{line} 1" for line in TOY_EDGES[:2]] + [f"{TOY_EDGES[2]} x"]
    with pytest.raises(InvalidInputError, match="line 3: <attribute 1> is not float64 but 'x'"):
        as_graph(toy(tmp_path, edges=edges))


@pytest.mark.parametrize("engine", ["metis", "random", "two-level"])
def test_any_engine_partitions_text(engine: str, tmp_path: Path) -> None:
    graph = replace(doubled(library()), node_values=[])
    text = text_of(graph, tmp_path)
    options = {"num_parts": 3, "engine": engine, "seed": 5, "on_defect": "warn"}
    result = run(text, tmp_path / "out", **options)
    expected = run(tmp_path / "in", tmp_path / "expected", **options)
    assert result.quality["edge_cut"] == expected.quality["edge_cut"]
    for folder in ("assignment", "partitions", "idmap"):
        for path in (tmp_path / "expected" / folder).rglob("*.*"):
            same = tmp_path / "out" / path.relative_to(tmp_path / "expected")
            assert same.read_bytes() == path.read_bytes(), path
    assert verify(text, tmp_path / "out").passed
    again = run(text, tmp_path / "out", **options)
    assert all(task.skipped for task in again.tasks)
    with (text / "small_removed_edges.txt").open("a") as stream:
        stream.write("\n")  # another file, the same graph
    again = run(text, tmp_path / "out", **options)
    assert not any(task.skipped for task in again.tasks if task.task == "validate")


def test_every_stage_reads_text(tmp_path: Path) -> None:
    text, out = str(text_of(library(), tmp_path, "--attributes", "feat")), str(tmp_path / "out")
    for words in (
        ["validate", text, "--output", out, "--no-data-docs"],
        ["schema", text, "--output", f"{out}/"],
        ["prepare", text, "--output", out],
        ["partition", text, "--output", out, "--num-parts", "2", "--engine", "metis"],
        ["convert", text, "--output", out],
        ["idmap", text, "--output", out],
        ["quality", text, "--output", out],
        ["publish", text, "--output", out],
        ["verify", text, out],
        ["estimate", text, "--num-parts", "2"],
        ["changes", text, out],
    ):
        assert main(words) == 0, words


def test_without_a_schema_types_are_numbered(tmp_path: Path) -> None:
    with as_graph(toy(tmp_path)) as found:
        metadata = load_metadata(found)
        assert metadata.node_types == ("type0", "type1")
        assert edges_of(found) == {
            "type0:relation0:type1": [(0, 0), (1, 1)],
            "type1:relation1:type1": [(2, 3)],
        }


def test_the_guides_toy_graph_is_partitioned(tmp_path: Path) -> None:
    toy(tmp_path)
    assert main(["run", str(tmp_path), str(tmp_path / "out"), "--num-parts", "2"]) == 0
    assert main(["verify", str(tmp_path), str(tmp_path / "out")]) == 0


def test_a_homogeneous_graph_has_dgls_names(tmp_path: Path) -> None:
    with as_graph(toy(tmp_path, ["0 1 0", "0 1 1"], ["0 1 0 0"], "2 1 1")) as found:
        assert edges_of(found) == {"_N:_E:_N": [(0, 1)]}


Change = Callable[[Path], object]
WRONG: dict[str, tuple[Change, str]] = {
    "a node out of order": (
        lambda folder: toy(folder, [*TOY_NODES[:5], "1 0 1 3", "1 0 1 2"]),
        r"toy_nodes\.txt, line 6: the type-wise IDs.*<orig_type_node_id> 2",
    ),
    "types that are mixed": (
        lambda folder: toy(folder, [TOY_NODES[0], TOY_NODES[3], *TOY_NODES[1:3], *TOY_NODES[4:]]),
        r"line 3: the nodes of a type are not together",
    ),
    "another number of nodes": (
        lambda folder: toy(folder, stats="8 3 2"),
        r"toy_nodes\.txt has another number",
    ),
    "another number of edges": (
        lambda folder: toy(folder, stats="7 4 2"),
        r"toy_edges\.txt has another number",
    ),
    "an edge ID left out": (
        lambda folder: toy(folder, edges=["0 3 0 0", "1 4 2 0", "5 6 0 1"]),
        r"the edge IDs of type 0 have gaps.*2 edges, and the greatest <type_edge_id> 2.*toy_removed_edges",
    ),
    "an edge between other types": (
        lambda folder: toy(folder, edges=["0 3 0 0", "5 4 1 0", "5 6 0 1"]),
        r"toy_edges\.txt, line [12]: the source of the edge is not a node of the type",
    ),
    "an end that is no node": (
        lambda folder: toy(folder, edges=["0 3 0 0", "1 7 1 0", "5 6 0 1"]),
        r"toy_edges\.txt, line 2: an end of the edge is not a node",
    ),
    "a word": (
        lambda folder: toy(folder, edges=["0 3 0 0", "1 x 1 0"]),
        r"toy_edges\.txt, line 2: <orig_dst_id>",
    ),
    "no edge file": (
        lambda folder: (toy(folder), (folder / "toy_edges.txt").unlink()),
        r"no file .*toy_edges\.txt",
    ),
    "two graphs": (
        lambda folder: (toy(folder), (folder / "b_stats.txt").write_text("1 1 1")),
        r"text of several graphs.*b_stats\.txt, toy_stats\.txt",
    ),
    "a schema with other nodes": (
        lambda folder: toy(folder).write_json(
            "toy.json", {"nid": {"a": [0, 4], "b": [4, 7]}, "eid": {"r": [0, 2], "s": [2, 3]}}
        ),
        r"the nodes of type 0 \(a\) are not those of the schema.*3 nodes.*Expected: 4",
    ),
    "a schema with more edges": (
        lambda folder: toy(folder).write_json(
            "toy.json", {"nid": {"a": [0, 3], "b": [3, 7]}, "eid": {"r": [0, 3], "s": [3, 4]}}
        ),
        r"1 edges of the schema are in no file.*edge 2 of type 'a:r:b'",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_text_is_refused(case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    change, message = WRONG[case]
    change(tmp_path)
    with pytest.raises(InvalidInputError, match=message):
        as_graph(open_store(str(tmp_path)))
    assert main(["run", str(tmp_path), str(tmp_path / "out"), "--num-parts", "2"]) == 3
    assert "Traceback" not in capsys.readouterr().err
