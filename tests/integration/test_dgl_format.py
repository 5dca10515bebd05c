"""Our writer of DGL's formats against DGL's own, byte for byte."""

from __future__ import annotations

import io
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partition_ops.formats.columns import Column
from partition_ops.formats.dgl.binary_format import (
    HEADER_BYTES,
    GraphColumns,
    Sparse,
    write_graph_file,
    write_tensor_file,
)
from partition_ops.system.dgl_import import import_dgl
from tests.temporary import temporary_folder

HEADER_USED = 32  # DGL leaves the rest as the memory was
FORMATS = [names for count in (1, 2, 3) for names in combinations(("coo", "csr", "csc"), count)]
DTYPES = [
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float16",
    "float32",
    "float64",
]


def tensors_by_dgl(arrays: dict[str, np.ndarray], path: Path) -> bytes:
    torch = pytest.importorskip("torch")
    tensors = {name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in arrays.items()}
    import_dgl().data.utils.save_tensors(str(path), tensors)
    return path.read_bytes()


def tensors_by_us(arrays: dict[str, np.ndarray]) -> bytes:
    stream = io.BytesIO()
    write_tensor_file(stream, {name: Column.of(array) for name, array in arrays.items()})
    return stream.getvalue()


@pytest.mark.parametrize("dtype", [*DTYPES, "bool"])
@pytest.mark.parametrize("shape", [(0,), (1,), (5,), (5, 3), (0, 4), (4, 0), (2, 3, 4)])
def test_one_tensor(dtype: str, shape: tuple[int, ...], tmp_path: Path) -> None:
    array = np.random.default_rng(0).integers(0, 2, shape).astype(dtype)
    arrays = {"paper/x": array}
    assert tensors_by_us(arrays) == tensors_by_dgl(arrays, tmp_path / "x.dgl")


def test_no_tensors(tmp_path: Path) -> None:
    assert tensors_by_us({}) == tensors_by_dgl({}, tmp_path / "x.dgl")


NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=20)


@settings(max_examples=50)
@given(st.dictionaries(NAMES, st.integers(0, 9)))
def test_many_tensors_are_the_same_in_another_order(sizes: dict[str, int]) -> None:
    """DGL's hash table decides about the order in its file."""
    arrays = {name: np.arange(size) for name, size in sizes.items()}
    with temporary_folder() as folder:
        file = Path(folder) / "x.dgl"
        theirs, ours = tensors_by_dgl(arrays, file), tensors_by_us(arrays)
        file.write_bytes(ours)
        loaded = import_dgl().data.utils.load_tensors(str(file))
    assert (len(ours), ours[:24]) == (len(theirs), theirs[:24])
    for name, array in arrays.items():
        assert tensors_by_us({name: array})[24:] in theirs
    assert {name: tensor.tolist() for name, tensor in loaded.items()} == {
        name: list(range(size)) for name, size in sizes.items()
    }


def columns(fields: dict[str, np.ndarray]) -> dict[str, Column]:
    return {name: Column.of(array) for name, array in fields.items()}


def sparse(name: str, src: np.ndarray, dst: np.ndarray, nodes: int) -> Sparse:
    """Return a matrix in the sparse format, made with numpy."""
    if name == "coo":
        return Sparse(name, (Column.of(src), Column.of(dst)))
    rows, others = (src, dst) if name == "csr" else (dst, src)
    order = np.argsort(rows, kind="stable")
    begins = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=nodes))]).astype(np.int64)
    return Sparse(name, (Column.of(begins), Column.of(others[order]), Column.of(order)))


def graph_by_dgl(
    src: np.ndarray, dst: np.ndarray, nodes: int, names: tuple[str, ...], typed: bool, path: Path
) -> tuple[bytes, dict[str, np.ndarray], dict[str, np.ndarray]]:
    """The file with a clean header, and its fields in the order in which DGL writes them."""
    dgl, torch = import_dgl(), pytest.importorskip("torch")
    graph = dgl.graph((torch.from_numpy(src), torch.from_numpy(dst)), num_nodes=nodes)
    frames: list[dict[str, Any]] = []
    for frame, count, inner in ((graph.ndata, nodes, "inner_node"), (graph.edata, len(src), "inner_edge")):
        fields = {
            "_ID": np.arange(count) + 7,
            "orig_id": np.arange(count) * 3,
            **({"part_id": np.arange(count) % 2} if inner == "inner_node" else {}),
            inner: np.ones(count, np.uint8),
            **({"_TYPE": np.arange(count, dtype=np.int32)} if typed else {}),
        }
        for name, array in fields.items():
            frame[name] = torch.from_numpy(array)
        order = (inner, "_TYPE", "part_id", "orig_id", "_ID")
        frames.append({name: fields[name] for name in order if name in fields})
    dgl.save_graphs(str(path), [graph], formats=list(names))
    data = bytearray(path.read_bytes())
    data[HEADER_USED:HEADER_BYTES] = bytes(HEADER_BYTES - HEADER_USED)
    return bytes(data), frames[0], frames[1]


@pytest.mark.parametrize("names", FORMATS, ids="-".join)
@pytest.mark.parametrize(("nodes", "edges"), [(4, 3), (1, 0), (7, 40), (300, 5000)])
@pytest.mark.parametrize("typed", [True, False])
def test_graph(names: tuple[str, ...], nodes: int, edges: int, typed: bool, tmp_path: Path) -> None:
    rng = np.random.default_rng(edges)
    src, dst = rng.integers(0, nodes, edges), rng.integers(0, nodes, edges)
    theirs, node_data, edge_data = graph_by_dgl(src, dst, nodes, names, typed, tmp_path / "g.dgl")
    stream = io.BytesIO()
    formats = [sparse(name, src, dst, nodes) for name in names]
    write_graph_file(stream, GraphColumns(nodes, formats, columns(node_data), columns(edge_data)))
    assert stream.getvalue() == theirs


def test_columns_of_many_blocks_are_those_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    made = [
        Column.of(np.arange(999.0).reshape(333, 3)),
        Column.count(5, 333),
        Column.constant(1, np.uint8, 333),
    ]
    whole = [np.concatenate(list(column.blocks())) for column in made]
    monkeypatch.setattr("partition_ops.formats.columns.BLOCK_BYTES", 64)
    for column, expected in zip(made, whole, strict=True):
        blocks = list(column.blocks())
        assert len(blocks) > 5
        assert np.array_equal(np.concatenate(blocks), expected)
        assert (expected.dtype, expected.shape) == (column.dtype, column.shape)
