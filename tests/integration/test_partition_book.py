"""`PartitionBook` against DGL's own ``GraphPartitionBook``, and against the original graph."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partition_ops.artifacts import layout
from partition_ops.artifacts.partition_book import PartitionBook
from partition_ops.errors import InvalidInputError
from partition_ops.jobs.options import RunConfig
from partition_ops.jobs.whole_job import run_job
from partition_ops.stages.idmap.export import export_id_maps
from partition_ops.stages.idmap.options import IdMapConfig
from partition_ops.storage import StorageSettings, open_store
from partition_ops.system.dgl_import import import_dgl
from tests.graphs import SHAPES, Edges, SmallGraph, library
from tests.strategies import graphs
from tests.temporary import temporary_folder


@contextmanager
def partitioned(graph: SmallGraph, num_parts: int, engine: str = "random") -> Iterator[Path]:
    """The folder of a finished output."""
    with temporary_folder() as folder:
        source = open_store(str(graph.write(Path(folder) / "input")))
        config = RunConfig(num_parts=num_parts, engine=engine, on_defect="warn", seed=3)
        run_job(config, source, open_store(f"{folder}/output"))
        yield Path(folder) / "output"


def compare_with_dgl(output: Path, graph: SmallGraph, num_parts: int) -> None:
    """Every method, for every ID, from every partition's book."""
    config = output / "partitions" / f"{graph.name}.json"
    with PartitionBook(open_store(str(output))) as ours:
        for part in range(num_parts):
            theirs = import_dgl().distributed.load_partition_book(str(config), part)[0]
            _compare_names(ours, theirs)
            _Kind("n", ours, theirs, sum(graph.nodes.values())).compare(part, theirs.ntypes, graph.nodes)
            counts = {tuple(name.split(":")): len(edges.src) for name, edges in graph.edges.items()}
            _Kind("e", ours, theirs, sum(counts.values())).compare(part, theirs.canonical_etypes, counts)


def _compare_names(ours: PartitionBook, theirs: Any) -> None:
    for name in ("ntypes", "etypes", "canonical_etypes"):
        assert getattr(ours, name) == getattr(theirs, name)
    for name in ("num_partitions", "metadata"):
        assert getattr(ours, name)() == getattr(theirs, name)()
    for triple in theirs.canonical_etypes:
        if theirs.etypes.count(triple[1]) == 1:
            assert ours.to_canonical_etype(triple[1]) == theirs.to_canonical_etype(triple[1])


class _Kind:
    """The methods for nodes (``n``) or for edges (``e``)."""

    def __init__(self, letter: str, ours: PartitionBook, theirs: Any, total: int) -> None:
        self.letter = letter
        self.books = (ours, theirs)
        self.total = total

    def same(self, pattern: str, *arguments: Any) -> None:
        """Call a method of both books with a tensor, and ours with an array and a list as well."""
        torch = pytest.importorskip("torch")
        name = pattern.format(self.letter)
        found, expected = (getattr(book, name)(*arguments) for book in self.books)
        pairs = zip(found, expected, strict=True) if isinstance(found, tuple) else [(found, expected)]
        for one, two in pairs:
            assert str(one.dtype).endswith("int64"), name
            assert one.tolist() == two.tolist(), (name, arguments)
        if isinstance(arguments[0], torch.Tensor):
            again = getattr(self.books[0], name)(arguments[0].numpy(), *arguments[1:])
            assert isinstance(again, tuple | np.ndarray)
            np.testing.assert_array_equal(again, np.stack(found) if isinstance(found, tuple) else found)

    def compare(self, part: int, types: list[Any], counts: dict[Any, int]) -> None:
        torch = pytest.importorskip("torch")
        self.same("partid2{}ids", part)
        begin, end = self.range_of(part)
        if self.total:
            every = torch.arange(self.total)
            self.same("{}id2partid", every)
            self.same("map_to_per_{}type", every)
            self.same("{0}id2local{0}id", every[begin:end], part)
        for type_name in types if len(types) > 1 else ():  # DGL's _N means every type
            self.same("partid2{}ids", part, type_name)
            if counts[type_name]:
                every = torch.arange(counts[type_name])
                self.same("{}id2partid", every, type_name)
                self.same("map_to_homo_{}id", every, type_name)
                begin, end = self.range_of(part, type_name)
                self.same("{0}id2local{0}id", every[begin:end], part, type_name)

    def range_of(self, *arguments: Any) -> tuple[int, int]:
        ids = getattr(self.books[1], f"partid2{self.letter}ids")(*arguments)
        return (int(ids[0]), int(ids[-1]) + 1) if len(ids) else (0, 0)


@pytest.mark.parametrize("shape", [name for name in SHAPES if name != "only homogeneous"])
def test_awkward_shapes_are_as_in_dgl(shape: str) -> None:
    num_parts = SHAPES[shape].parts(3)
    with partitioned(SHAPES[shape], num_parts) as output:
        compare_with_dgl(output, SHAPES[shape], num_parts)


@pytest.mark.parametrize(
    "graph", [library(papers=60), SHAPES["only homogeneous"]], ids=["library", "homogeneous"]
)
def test_metis_is_as_in_dgl(graph: SmallGraph) -> None:
    with partitioned(graph, 4, "metis") as output:
        compare_with_dgl(output, graph, 4)


@pytest.mark.long
@settings(max_examples=20)
@given(graph=graphs(), num_parts=st.integers(1, 5))
def test_any_graph_is_as_in_dgl(graph: SmallGraph, num_parts: int) -> None:
    num_parts = graph.parts(num_parts)
    with partitioned(graph, num_parts) as output:
        compare_with_dgl(output, graph, num_parts)
        check_original_ids(output, graph)


def check_original_ids(output: Path, graph: SmallGraph) -> None:
    """Both directions undo each other, and say what ``orig_id`` in the partitions says."""
    with PartitionBook(open_store(str(output))) as book:
        for name, count in graph.nodes.items():
            every = np.arange(count)
            assert book.nid_new2orig(book.nid_orig2new(every, name), name).tolist() == every.tolist()
        for name, edges in graph.edges.items():
            every = np.arange(len(edges.src))
            assert book.eid_new2orig(book.eid_orig2new(every, name), name).tolist() == every.tolist()
        for part in range(book.num_partitions()):
            path = output / f"partitions/part{part}/graph.dgl"
            stored = import_dgl().load_graphs(str(path))[0][0]
            _check_fields(book, stored.ndata, book.map_to_per_ntype, book.nid_new2orig)
            _check_fields(book, stored.edata, book.map_to_per_etype, book.eid_new2orig)


def _check_fields(book: PartitionBook, frame: Any, to_typed: Any, to_orig: Any) -> None:
    types, typed = to_typed(frame["_ID"])
    if "_TYPE" in frame:
        assert types.tolist() == frame["_TYPE"].tolist()
    for type_id in set(types.tolist()):
        of_type = types == type_id
        assert to_orig(typed[of_type], type_id).tolist() == frame["orig_id"][of_type].tolist()


@pytest.fixture(scope="module")
def output() -> Iterator[Path]:
    with partitioned(library(), 2) as folder:
        yield folder


def test_one_id_gives_one_int(output: Path) -> None:
    with PartitionBook(open_store(str(output))) as book:
        new = book.nid_orig2new(7, "paper")
        assert type(new) is int
        assert book.nid_new2orig(new, "paper") == 7
        homogeneous = book.map_to_homo_nid(new, "paper")
        assert book.map_to_per_ntype(homogeneous) == (book.ntypes.index("paper"), new)
        assert book.nid2partid(homogeneous) == book.nid2partid(new, "paper")


@pytest.mark.parametrize(
    ("method", "arguments", "message"),
    [
        (
            "nid2partid",
            ([0, 65],),
            r"homogeneous new node ID is out of range at position 1\. Found: 65\. Expected: 0 to 64",
        ),
        ("nid2partid", (-1,), r"Found: -1"),
        ("nid2partid", (40, "paper"), r"'paper'.*Found: 40. Expected: 0 to 39"),
        ("nid2partid", (0, "book"), r"no node type 'book'"),
        ("map_to_homo_nid", (5, "venue"), r"'venue'.*Expected: 0 to 4"),
        ("map_to_per_ntype", (65,), r"Found: 65"),
        ("partid2nids", (2,), r"partition is out of range\. Found: 2\. Expected: 0 to 1"),
        ("nid_orig2new", (40, "paper"), r"original node ID is out of range"),
        ("nid_new2orig", (-1, "paper"), r"Found: -1"),
        ("eid2partid", (10**6, "writes"), r"author:writes:paper"),
        ("nid2localnid", (0, 1), r"partition 1 is out of range"),
    ],
)
def test_what_is_outside_is_refused(output: Path, method: str, arguments: Any, message: str) -> None:
    with (
        PartitionBook(open_store(str(output))) as book,
        pytest.raises(ValueError, match=message) as raised,
    ):
        getattr(book, method)(*arguments)
    assert isinstance(raised.value, InvalidInputError)


def test_closing_removes_what_was_unpacked(
    output: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with PartitionBook(open_store(str(output))) as book:
        assert not list(tmp_path.iterdir())
        book.nid_orig2new(0, "paper")
        assert isinstance(book.node_id_map("paper").orig, np.memmap)
        assert list(tmp_path.iterdir())
    assert not list(tmp_path.iterdir())


def test_book_of_an_output_on_s3(output: Path, s3_root: str, s3_settings: StorageSettings) -> None:
    from tests.uploads import upload_folder

    with open_store(s3_root, s3_settings) as store:
        upload_folder(output, store)
        with PartitionBook(store) as book, PartitionBook(open_store(str(output))) as local:
            every = np.arange(40)
            assert book.nid_orig2new(every, "paper").tolist() == local.nid_orig2new(every, "paper").tolist()


def test_unfinished_and_broken_outputs(output: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="not a finished output"):
        PartitionBook(open_store(str(tmp_path)))
    broken = open_store(str(tmp_path / "broken"))
    book = open_store(str(output)).read_json(layout.BOOK)
    del book["nodes"]["paper"][0]
    broken.write_json(layout.BOOK, book)
    with pytest.raises(InvalidInputError, match=r"book\.json is damaged"):
        PartitionBook(broken, graph_name="small")


@pytest.mark.parametrize("orig", [[0, 0, 1, 2, 3], [0, 1, 2, 3], [0, 1, 2, 3, 5], [-1, 0, 1, 2, 3]])
def test_a_map_that_is_no_bijection_is_refused(output: Path, tmp_path: Path, orig: list[int]) -> None:
    store = open_store(str(tmp_path))
    store.write_bytes(layout.BOOK, (output / layout.BOOK).read_bytes())
    path = tmp_path / layout.node_id_map("venue")
    path.parent.mkdir(parents=True)
    new = np.arange(len(orig))
    pq.write_table(pa.table({"orig_id": np.array(orig), "type_new_id": new}), path)
    with (
        PartitionBook(store, graph_name="small") as book,
        pytest.raises(InvalidInputError, match="not the ID map"),
    ):
        book.nid_orig2new(0, "venue")


def test_edges_that_validation_dropped_leave_gaps(tmp_path: Path) -> None:
    """Write edges 0 to 5, of which two duplicates and the last, a self-loop, are dropped."""
    graph = SmallGraph({"a": 4}, {"a:r:a": Edges([0, 0, 0, 1, 2, 2], [1, 1, 1, 1, 3, 2])})
    source, store = open_store(str(graph.write(tmp_path / "in"))), open_store(str(tmp_path / "out"))
    run_job(RunConfig(num_parts=2, on_defect="drop"), source, store)
    dropped = np.load(store.local_copy(layout.edge_list(layout.DROPPED, "a:r:a"))).tolist()
    kept = [edge for edge in range(6) if edge not in dropped]
    assert 0 < len(kept) < 6
    with PartitionBook(store) as book:
        assert sorted(book.eid_new2orig(np.arange(len(kept)), "r").tolist()) == kept
        assert book.eid_new2orig(book.eid_orig2new(kept, "r"), "r").tolist() == kept
        for edge in dropped:
            with pytest.raises(ValueError, match=rf"original edge ID {edge} has no counterpart"):
                book.eid_orig2new([kept[0], edge], "r")
        with pytest.raises(ValueError, match=r"Found: 6\. Expected: 0 to 5"):
            book.eid_orig2new(6, "r")
    export_id_maps(IdMapConfig(part_maps=True), source, store)
    parts = np.load(store.local_copy(layout.EDGE_MAP))
    assert np.flatnonzero(parts < 0).tolist() == dropped
