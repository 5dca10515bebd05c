"""Files that ``torch.load`` reads, written without torch and as a stream.

Such a file is a zip archive without compression: ``data.pkl`` is a pickle of the whole object, in which each
tensor refers to a file ``data/<n>`` with its bytes. The archive has no dates, so that equal objects give
equal files, and the bytes of tensors are aligned as ``torch.save`` aligns them, so that
``torch.load(mmap=True)`` can map them. Unless it has an
`Instance`, it can be loaded with ``weights_only=True``.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from io import RawIOBase
from pathlib import Path
from typing import Any, BinaryIO
from zipfile import ZIP_STORED, BadZipFile, ZipFile, ZipInfo

import numpy as np

from partition_ops.errors import InvalidInputError
from partition_ops.formats.columns import Column

ALIGNMENT = 64  # of the bytes of a tensor in the file
ROOT = "archive"  # the folder inside the archive; any name would do
FORMAT_VERSION = b"3\n"
BLOCK = 1 << 20
SHORT = 1 << 16  # bytes: data is written in larger pieces, or is little
PADDING_ID = 0x4246  # of the extra field that pads a header; the one of torch
LOCAL_HEADER, ZIP64_FIELD, LARGE = 30, 20, 1 << 31
UNREADABLE = (BadZipFile, OSError, RuntimeError, ValueError, EOFError, struct.error, zlib.error)
STORAGES = {
    "|b1": "Bool",
    "|u1": "Byte",
    "|i1": "Char",
    "<i2": "Short",
    "<i4": "Int",
    "<i8": "Long",
    "<f2": "Half",
    "<f4": "Float",
    "<f8": "Double",
}


@dataclass(frozen=True)
class Instance:
    """An object of a class, made without arguments and given its state."""

    module: str  # module of the class; it must be there when the file is loaded
    name: str  # name of the class
    state: Any  # argument of its ``__setstate__``, or its ``__dict__`` if it has no such method


def write_torch_file(stream: BinaryIO, value: Any) -> None:
    """Write what ``torch.save`` writes of a value, as far as ``torch.load`` can tell.

    Args:
        stream: Where to; it can seek.
        value: A `Column`, which becomes a tensor of its dtype and shape, a text, an integer, a boolean, None,
            an `Instance`, or a tuple, list or dict of these. ``torch.load`` gives dicts, lists and tuples as
            they are.

    Raises:
        TypeError: A value has another type.

    Peak memory: a block.
    """
    pickler = _Pickler()
    pickled = pickler.pickle(value)
    with ZipFile(stream, "w", ZIP_STORED) as archive:
        _write(archive, "data.pkl", [pickled], len(pickled))
        _write(archive, "byteorder", [b"little"], 6)
        for number, column in enumerate(pickler.columns):
            little = _little(column)
            filled = (block for block in column.blocks() if block.size)
            blocks = (np.ascontiguousarray(block, little).data.cast("B") for block in filled)
            _write(archive, f"data/{number}", blocks, column.nbytes)
        _write(archive, "version", [FORMAT_VERSION], len(FORMAT_VERSION))


@cache
def check_torch_file(path: Path, changed: int) -> None:
    """Check that every byte of a file is one that `write_torch_file` writes.

    The checksums in the archive cover neither its headers, by which some readers find a tensor, nor do all
    readers compare them. So the archive is written again from its own content, and compared.

    Args:
        path: The archive; it is read once as long as it has the same time of the last change.
        changed: This time in nanoseconds.

    Raises:
        InvalidInputError: A byte has changed.

    Peak memory: 1 MiB.
    """
    try:
        with path.open("rb") as stream, ZipFile(stream) as found:
            written = _Compared(path)
            with written, ZipFile(written, "w", ZIP_STORED) as archive:
                for entry in sorted(found.infolist(), key=lambda one: one.header_offset):
                    with found.open(entry) as file:
                        blocks = iter(partial(file.read, BLOCK), b"")
                        _write(archive, entry.filename.removeprefix(f"{ROOT}/"), blocks, entry.file_size)
            difference = written.difference()
    except UNREADABLE as error:
        raise InvalidInputError(f"{path} is damaged", found=str(error)) from error
    if difference is not None:
        raise InvalidInputError(f"{path} is damaged", found=f"another byte at {difference}")


class _Compared(RawIOBase):
    """Takes what is written to a file, and compares it with that file instead.

    Args:
        path: The file.
    """

    def __init__(self, path: Path) -> None:
        self._file = path.open("rb")
        self._size = path.stat().st_size
        self._place = self._end = 0
        self._short: dict[int, bytes] = {}  # headers, which are written twice
        self._first: int | None = None

    def close(self) -> None:
        self._compare_short()
        self._file.close()
        super().close()

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._place

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._place = offset + (0, self._place, self._end)[whence]
        return self._place

    def write(self, data: Any) -> int:
        data = bytes(data)
        if len(data) < SHORT:
            self._short[self._place] = data
        else:
            self._compare(self._place, data)
        self._place += len(data)
        self._end = max(self._end, self._place)
        return len(data)

    def difference(self) -> int | None:
        """Return where the file has another byte, or ends elsewhere; None if it is the same."""
        if self._first is None and self._end != self._size:
            return min(self._end, self._size)
        return self._first

    def _compare_short(self) -> None:
        for place, data in self._short.items():
            self._compare(place, data)
        self._short.clear()

    def _compare(self, place: int, data: bytes) -> None:
        self._file.seek(place)
        if self._first is None and self._file.read(len(data)) != data:
            self._first = place


def _little(column: Column) -> np.dtype[Any]:
    return column.dtype.newbyteorder("<")


def _write(archive: ZipFile, name: str, blocks: Iterable[bytes | memoryview], size: int) -> None:
    """Write one file of the archive, whose bytes begin at a multiple of `ALIGNMENT`."""
    info = ZipInfo(f"{ROOT}/{name}")
    stream: Any = archive.fp
    large = size >= LARGE
    begin = stream.tell() + LOCAL_HEADER + len(info.filename) + ZIP64_FIELD * large
    padding = -(begin + 4) % ALIGNMENT
    info.extra = struct.pack("<HH", PADDING_ID, padding) + b"Z" * padding
    written = 0
    with archive.open(info, "w", force_zip64=large) as file:
        for block in blocks:
            file.write(block)
            written += len(block)
    if written != size:
        raise RuntimeError(f"{written} bytes of {name}, which has {size}")


class _Pickler:
    """Pickles a value by protocol 2, and collects its tensors.

    Attributes:
        columns: The tensors, in the order of the files that hold them.
    """

    def __init__(self) -> None:
        self.columns: list[Column] = []
        self._out = bytearray()

    def pickle(self, value: Any) -> bytes:
        self._out += b"\x80\x02"
        self._add(value)
        self._out += b"."
        return bytes(self._out)

    def _add(self, value: Any) -> None:
        if isinstance(value, Column):
            self._tensor(value)
        elif value is None or isinstance(value, bool):
            self._out += {None: b"N", False: b"\x89", True: b"\x88"}[value]
        elif isinstance(value, int):
            self._integer(value)
        elif isinstance(value, str):
            data = value.encode()
            self._out += b"X" + struct.pack("<I", len(data)) + data
        elif isinstance(value, tuple):
            self._tuple(*value)
        elif isinstance(value, list):
            self._out += b"]("
            self._add_all(value)
            self._out += b"e"
        elif isinstance(value, Instance):
            self._global(value.module, value.name)
            self._out += b")\x81"
            self._add(value.state)
            self._out += b"b"
        elif isinstance(value, Mapping):
            self._out += b"}("
            self._add_all(one for item in value.items() for one in item)
            self._out += b"u"
        else:
            raise TypeError(f"{type(value).__name__} in a file of torch")

    def _add_all(self, values: Iterable[Any]) -> None:
        for value in values:
            self._add(value)

    def _integer(self, value: int) -> None:
        if -(1 << 31) <= value < 1 << 31:
            self._out += b"J" + struct.pack("<i", value)
        else:
            self._out += b"\x8a\x08" + struct.pack("<q", value)

    def _tuple(self, *values: Any) -> None:
        self._out += b"("
        self._add_all(values)
        self._out += b"t"

    def _global(self, module: str, name: str) -> None:
        self._out += f"c{module}\n{name}\n".encode()

    def _tensor(self, column: Column) -> None:
        """Add a call of the function that makes a tensor of a part of a file."""
        little = _little(column)
        storage, unsigned = STORAGES.get(little.str), little.kind == "u"
        if storage is None and not unsigned:
            raise TypeError(f"a tensor of {column.dtype} in a file of torch")
        count = int(np.prod(column.shape, dtype=np.int64))
        self._global("torch._utils", "_rebuild_tensor_v2" if storage else "_rebuild_tensor_v3")
        self._out += b"(("
        self._add("storage")
        self._global(*(("torch", f"{storage}Storage") if storage else ("torch.storage", "UntypedStorage")))
        self._add(str(len(self.columns)))
        self._add("cpu")
        self._add(count if storage else column.nbytes)
        self._out += b"tQ"
        self._add(0)
        self._tuple(*column.shape)
        self._tuple(*_strides(column.shape))
        self._out += b"\x89"  # needs no gradient
        self._global("collections", "OrderedDict")
        self._out += b")R"
        if not storage:
            self._global("torch", column.dtype.name)
        self._out += b"tR"
        self.columns.append(column)


def _strides(shape: tuple[int, ...]) -> list[int]:
    """Return the strides of a contiguous tensor, in values."""
    strides = [1] * len(shape)
    for axis in range(len(shape) - 1, 0, -1):
        strides[axis - 1] = strides[axis] * max(shape[axis], 1)
    return strides
