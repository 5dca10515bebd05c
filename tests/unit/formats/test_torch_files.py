"""Files for ``torch.load`` that are written without torch."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from partition_ops.formats.columns import Column
from partition_ops.formats.torch_files import ALIGNMENT, Instance, write_torch_file
from partition_ops.formats.torch_reader import State, read_torch_file

torch = pytest.importorskip("torch", reason="torch is not installed")

DTYPES = ["b1", "u1", "i1", "i2", "i4", "i8", "u2", "u4", "u8", "f2", "f4", "f8", ">i4", ">f8"]
SHAPES = [(5,), (3, 2, 4), (0,), (0, 7), (4, 0), (300_000,)]


def saved(value: Any) -> bytes:
    stream = io.BytesIO()
    write_torch_file(stream, value)
    return stream.getvalue()


@pytest.mark.parametrize("mmap", [False, True])
def test_tensors_have_bits_shapes_and_dtypes(mmap: bool, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    arrays = {f"{t} {s}": rng.integers(0, 100, s).astype(t) for t in DTYPES for s in SHAPES}
    (tmp_path / "file.pt").write_bytes(saved({name: Column.of(array) for name, array in arrays.items()}))
    found = torch.load(tmp_path / "file.pt", weights_only=True, mmap=mmap)
    assert list(found) == list(arrays)
    for name, array in arrays.items():
        expected = torch.from_numpy(array.astype(array.dtype.newbyteorder("=")))
        assert found[name].dtype == expected.dtype
        assert torch.equal(found[name], expected)
        assert found[name].stride() == expected.stride() or not array.size
        assert found[name].data_ptr() % ALIGNMENT == 0 or not array.size


@pytest.mark.parametrize(
    "value",
    [None, True, -5, 1 << 40, "é", (), ("a", (1, 2)), [], [None], {}, {("a", "b"): {"c": 0}}],
    ids=str,
)
def test_other_values(value: Any) -> None:
    assert torch.load(io.BytesIO(saved(value)), weights_only=True) == value


def test_the_same_value_has_the_same_bytes() -> None:
    assert saved([Column.count(0, 9)]) == saved([Column.count(0, 9)])


def test_wrong_values_are_errors() -> None:
    with pytest.raises(TypeError, match="set in a file"):
        saved({1})
    short = Column(np.dtype(np.int64), (3,), lambda: iter([np.arange(2)]))
    with pytest.raises(RuntimeError, match="16 bytes of data/0, which has 24"):
        saved(short)


@pytest.mark.parametrize("with_torch", [True, False])
def test_our_reader_and_torch_give_the_same_arrays(
    with_torch: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = tmp_path / "made.pt"
    torch.save({"a": torch.arange(6).reshape(2, 3).T, "b": torch.tensor(5), "c": torch.zeros(0, 3)}, made)
    if not with_torch:
        monkeypatch.setitem(sys.modules, "torch", None)
    rng, path = np.random.default_rng(0), tmp_path / "file.pt"
    arrays = {(t, str(s)): rng.integers(0, 100, s).astype(t) for t in DTYPES for s in SHAPES}
    value = {"tensors": [{name: Column.of(array) for name, array in arrays.items()}], "size": (3, "x", None)}
    path.write_bytes(saved(value))
    found = read_torch_file(path)
    assert found["size"] == (3, "x", None)
    for name, array in arrays.items():
        assert found["tensors"][0][name].dtype == array.dtype.newbyteorder("=")
        np.testing.assert_array_equal(found["tensors"][0][name], array)
    found = read_torch_file(made)
    assert found["a"].tolist() == [[0, 3], [1, 4], [2, 5]]
    assert int(found["b"]) == 5
    assert found["c"].shape == (0, 3)


@pytest.mark.parametrize("with_torch", [True, False])
def test_objects_of_other_classes_are_errors(
    with_torch: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not with_torch:
        monkeypatch.setitem(sys.modules, "torch", None)
    path = tmp_path / "file.pt"
    path.write_bytes(saved(Instance("one", "Class", {"values": Column.count(0, 3)})))
    found = read_torch_file(path, [("one", "Class")])
    assert isinstance(found, State)
    assert found.values.tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match=r"one\.Class"):
        read_torch_file(path, [("another", "Class")])
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(ValueError, match="no zip archive"):
        read_torch_file(path)
