"""The export of ID maps: what it writes, how, and that it is what DGL returns."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from partition_ops.artifacts import layout
from partition_ops.artifacts.partition_book import PartitionBook
from partition_ops.chunked.id_converter import IDConverter
from partition_ops.chunked.metadata import load_metadata
from partition_ops.errors import InvalidInputError
from partition_ops.jobs.options import RunConfig
from partition_ops.jobs.whole_job import run_job
from partition_ops.stages.idmap import export
from partition_ops.stages.idmap.export import export_id_maps
from partition_ops.stages.idmap.options import IdMapConfig
from partition_ops.stages.idmap.return_mapping import return_mapping
from partition_ops.storage import Store, open_store
from partition_ops.storage.local_store import LocalStore
from tests.graphs import SHAPES, SmallGraph, library
from tests.integration.test_equals_dgl import Pair, pair  # noqa: F401

ALL = IdMapConfig(vectors=True, part_maps=True)


def run(graph: SmallGraph, folder: Path) -> tuple[Store, Store]:
    """Input and finished output."""
    source, destination = open_store(str(graph.write(folder / "in"))), open_store(str(folder / "out"))
    run_job(RunConfig(num_parts=graph.parts(3), engine="random", on_defect="warn"), source, destination)
    return source, destination


@pytest.fixture(
    scope="module", params=["library", "a type without nodes first", "no edges at all", "only homogeneous"]
)
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a graph ``in`` and its finished output ``out``."""
    folder = tmp_path_factory.mktemp("made")
    run(library() if request.param == "library" else SHAPES[request.param], folder)
    return folder


@pytest.fixture
def finished(made: Path, tmp_path: Path) -> tuple[Store, Store]:
    """Input and a finished output of the test's own."""
    shutil.copytree(made / "out", tmp_path / "out")
    return open_store(str(made / "in")), open_store(str(tmp_path / "out"))


def test_vectors_are_the_columns_of_the_maps(finished: tuple[Store, Store]) -> None:
    source, out = finished
    export_id_maps(ALL, source, out)
    metadata = load_metadata(source)
    keys = [(layout.node_id_map(t), layout.node_id_vector(t)) for t in metadata.node_types]
    keys += [(layout.edge_id_map(str(t)), layout.edge_id_vector(str(t))) for t in metadata.edge_types]
    for table, vector in keys:
        column = pq.read_table(out.local_copy(table)).column("orig_id").to_numpy()
        found = np.load(out.local_copy(vector), mmap_mode="r" if len(column) else None)
        assert found.dtype == np.int64
        assert found.tolist() == column.tolist()


def test_part_maps_have_the_partition_of_every_original_id(finished: tuple[Store, Store]) -> None:
    source, out = finished
    export_id_maps(ALL, source, out)
    metadata = load_metadata(source)
    converter = IDConverter(metadata)
    nodes, edges = (np.load(out.local_copy(key)) for key in (layout.NODE_MAP, layout.EDGE_MAP))
    assert (nodes.dtype, nodes.shape) == (np.int64, (metadata.node_offsets[-1],))
    assert (edges.dtype, edges.shape) == (np.int64, (metadata.edge_offsets[-1],))
    with PartitionBook(out, graph_name="small") as book:
        for name, count in zip(metadata.node_types, metadata.num_nodes, strict=True):
            every = np.arange(count)
            expected = book.nid2partid(book.nid_orig2new(every, name), name)
            assert nodes[converter.nid_het2hom(name, every)].tolist() == expected.tolist()
        for edge_type, count in zip(metadata.edge_types, metadata.num_edges, strict=True):
            every = np.arange(count)
            expected = book.eid2partid(book.eid_orig2new(every, str(edge_type)), str(edge_type))
            assert edges[converter.eid_het2hom(str(edge_type), every)].tolist() == expected.tolist()


def test_without_options_there_are_only_parquet_files(finished: tuple[Store, Store]) -> None:
    source, out = finished
    before = {entry.key for entry in out.list("idmap/")}
    assert all(key.endswith(".parquet") for key in before)
    export_id_maps(ALL, source, out)
    export_id_maps(IdMapConfig(), source, out)
    assert {entry.key for entry in out.list("idmap/")} == before
    assert not out.exists(layout.NODE_MAP)


def test_rows_are_written_group_by_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, out = run(library(), tmp_path)
    whole = pq.read_table(out.local_copy(layout.node_id_map("paper")))
    out.delete([layout.record("idmap")])
    monkeypatch.setattr(export, "ROWS", 4)
    export_id_maps(ALL, source, out)
    with pq.ParquetFile(out.local_copy(layout.node_id_map("paper"))) as file:
        sizes = [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)]
        assert max(sizes) == 4
        assert file.read() == whole


class Full(Exception):
    """The disk is full."""


class _FullStore(LocalStore):
    """Has room for some files only."""

    room = 0

    @contextmanager
    def create(self, key: str) -> Iterator[Any]:
        with super().create(key) as new:
            yield new
            self.room -= 1
            if self.room < 0:
                raise Full


@pytest.mark.parametrize("room", [0, 1, 5, 10])
def test_a_failed_export_leaves_no_record_and_no_half_file(tmp_path: Path, room: int) -> None:
    source, out = run(library(), tmp_path)
    expected = {entry.key: out.read_bytes(entry.key) for entry in out.list("idmap/")}
    full = _FullStore(tmp_path / "out")
    full.room = room
    with pytest.raises(Full):
        export_id_maps(ALL, source, full)
    assert not out.exists(layout.record("idmap"))
    assert not out.exists(layout.MANIFEST)
    assert not [path for path in tmp_path.rglob("*") if "partial" in path.name]
    for entry in out.list("idmap/"):
        if entry.key in expected:
            assert out.read_bytes(entry.key) == expected[entry.key]
    export_id_maps(IdMapConfig(), source, out)
    assert {entry.key: out.read_bytes(entry.key) for entry in out.list("idmap/")}.items() >= expected.items()


def test_no_map_of_nodes_appears_if_those_of_edges_fail(tmp_path: Path) -> None:
    source, out = run(library(), tmp_path)
    out.delete([layout.record("idmap"), *(entry.key for entry in out.list("idmap/"))])
    first, second = (tmp_path / f"out/partitions/part{part}/orig_eids.dgl" for part in (0, 1))
    second.write_bytes(first.read_bytes())
    with pytest.raises(InvalidInputError, match=r"part1.* is not of the partition that the book describes"):
        export_id_maps(ALL, source, out)
    assert not [*out.list("idmap/")]


def test_mapping_is_the_one_that_dgl_returns(pair: Pair) -> None:  # noqa: F811
    """For the same assignment, up to the order in a type and a partition, which DGL leaves free."""
    output = open_store(str(pair.ours.parent))
    export_id_maps(ALL, open_store(str(pair.ours.parents[1] / "input")), output)
    torch = pytest.importorskip("torch")
    with PartitionBook(output, graph_name=pair.graph.name) as book:
        nodes, edges = return_mapping(book)
        if len(pair.graph.nodes) == 1:
            assert isinstance(nodes, torch.Tensor)
            assert isinstance(edges, torch.Tensor)
            nodes, edges = {"_N": nodes}, {("_N", "_E", "_N"): edges}
        assert list(edges) == [tuple(name.split(":")) for name in pair.original.edges]
        edges = {":".join(triple): ids for triple, ids in edges.items()}
        _compare(nodes, pair.original.nodes, book.nid2partid)
        _compare(edges, pair.original.edges, book.eid2partid)


def _compare(ours: Mapping[str, Any], theirs: Mapping[str, np.ndarray], part_of: Any) -> None:
    assert list(ours) == list(theirs)
    for name, expected in theirs.items():
        assert str(ours[name].dtype) == "torch.int64"
        parts = part_of(np.arange(len(expected)), name)
        rows = [np.lexsort((ids, parts)) for ids in (ours[name].numpy(), expected)]
        assert ours[name].numpy()[rows[0]].tolist() == expected[rows[1]].tolist()
