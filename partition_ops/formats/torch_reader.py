"""Files that ``torch.save`` writes, as NumPy arrays: read by torch, or by this module if torch is missing.

Only what our formats hold is read: containers, numbers, texts, tensors, and objects of known classes.
Anything else is an error, so that a file cannot run code.
"""

from __future__ import annotations

import pickle  # with an unpickler that refuses everything unexpected
import struct
from collections.abc import Collection
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from zipfile import ZIP_STORED, BadZipFile, ZipFile, ZipInfo, is_zipfile

import numpy as np

from partition_ops.formats.columns import Array
from partition_ops.system.extras import is_installed

DTYPES = {
    "BoolStorage": "|b1",
    "ByteStorage": "|u1",
    "CharStorage": "|i1",
    "ShortStorage": "<i2",
    "IntStorage": "<i4",
    "LongStorage": "<i8",
    "HalfStorage": "<f2",
    "FloatStorage": "<f4",
    "DoubleStorage": "<f8",
    "UntypedStorage": "|u1",
}
UNSIGNED = ("uint16", "uint32", "uint64")  # dtypes without a class of storages
LOCAL_HEADER = struct.Struct("<26xHH")  # lengths of the name and of the extra field
Classes = Collection[tuple[str, str]]


class State:
    """Stands for an object: its state is its attributes, or ``state`` if it is a tuple."""

    def __setstate__(self, state: Any) -> None:
        self.__dict__ = state if isinstance(state, dict) else {"state": state}


def read_torch_file(path: Path, classes: Classes = ()) -> Any:
    """Return the content of a file, with read-only arrays in place of tensors.

    Args:
        path: The file.
        classes: Module and name of classes; their objects become `State`.

    Raises:
        ValueError: It is no such file, is damaged, or has an object of another class.

    Peak memory: the file, or pages of it as they are touched.
    """
    if not is_zipfile(path):  # torch would read it as a pickle, without our unpickler
        raise ValueError("it is no zip archive, or is cut short")
    read = _read_with_torch if is_installed("torch") else _read
    try:
        return read(path, classes)
    except (RuntimeError, pickle.UnpicklingError, EOFError, LookupError, AttributeError, TypeError) as error:
        raise ValueError(str(error)) from error
    except (BadZipFile, struct.error) as error:
        raise ValueError(str(error)) from error


def _read_with_torch(path: Path, classes: Classes) -> Any:
    import torch

    class Unpickler(pickle.Unpickler):
        def find_class(self, module: str, name: str) -> Any:
            if (module, name) in classes:
                return State
            if (module, name) in {("collections", "OrderedDict"), ("torch._utils", "_rebuild_tensor_v2")}:
                return super().find_class(module, name)
            raise pickle.UnpicklingError(f"it has an object of {module}.{name}")

    def arrays(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return value.numpy()
        if isinstance(value, State):
            value.__dict__ = arrays(vars(value))
            return value
        if isinstance(value, dict):
            return {key: arrays(one) for key, one in value.items()}
        return type(value)(map(arrays, value)) if isinstance(value, list | tuple) else value

    if not classes:
        return arrays(torch.load(path, weights_only=True, mmap=True))
    module: Any = SimpleNamespace(Unpickler=Unpickler, __name__="pickle")
    return arrays(torch.load(path, map_location="cpu", pickle_module=module, weights_only=False))


def _read(path: Path, classes: Classes) -> Any:
    with ZipFile(path) as archive:
        entry = next(one for one in archive.infolist() if one.filename.endswith("/data.pkl"))
        root = entry.filename.removesuffix("data.pkl")
        with archive.open(entry) as stream:
            return _Unpickler(stream, path, archive, root, classes).load()


class _Unpickler(pickle.Unpickler):
    """Maps the bytes of tensors, and refuses classes and functions that are not known."""

    def __init__(self, stream: Any, path: Path, archive: ZipFile, root: str, classes: Classes) -> None:
        super().__init__(stream)
        self._path, self._archive, self._root, self._classes = path, archive, root, classes

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in self._classes:
            return State
        if module in ("torch", "torch.storage") and name in DTYPES:
            return np.dtype(DTYPES[name])
        if module == "torch" and name in UNSIGNED:
            return np.dtype(name).newbyteorder("<")
        known = {
            ("collections", "OrderedDict"): dict,
            ("torch._utils", "_rebuild_tensor_v2"): _tensor,
            ("torch._utils", "_rebuild_tensor_v3"): _tensor_of_bytes,
        }
        if (module, name) not in known:
            raise pickle.UnpicklingError(f"it has an object of {module}.{name}")
        return known[module, name]

    def persistent_load(self, pid: Any) -> Array:
        """Return the values of a storage, mapped."""
        _, dtype, key, _, count = pid
        entry = self._archive.getinfo(f"{self._root}data/{key}")
        nbytes = count * dtype.itemsize
        if entry.compress_type != ZIP_STORED or entry.file_size != nbytes:
            raise pickle.UnpicklingError(f"data/{key} has {entry.file_size:,} bytes instead of {nbytes:,}")
        if not nbytes:
            return np.empty(0, dtype)
        return np.memmap(self._path, dtype, "r", self._begin(entry), (count,))

    def _begin(self, entry: ZipInfo) -> int:
        with self._path.open("rb") as file:
            file.seek(entry.header_offset)
            name, extra = LOCAL_HEADER.unpack(file.read(LOCAL_HEADER.size))
        return entry.header_offset + LOCAL_HEADER.size + int(name) + int(extra)


def _tensor(storage: Array, offset: int, shape: tuple[int, ...], strides: tuple[int, ...], *_: Any) -> Array:
    """Return a tensor over a part of a storage, whose offset and strides count values."""
    last = offset + sum((size - 1) * step for size, step in zip(shape, strides, strict=True))
    if 0 in shape:
        return np.empty(shape, storage.dtype)
    if offset < 0 or min(strides, default=0) < 0 or last >= len(storage):
        raise pickle.UnpicklingError("a tensor is larger than its storage")
    steps = [step * storage.itemsize for step in strides]
    return np.lib.stride_tricks.as_strided(storage[offset:], shape, steps, writeable=False)


def _tensor_of_bytes(
    storage: Array,
    offset: int,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    _gradient: Any,
    _hooks: Any,
    dtype: np.dtype[Any],
) -> Array:
    return _tensor(storage.view(dtype), offset, shape, strides)
