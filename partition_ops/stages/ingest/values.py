"""Columns of tables as what transforms work on: numbers, vectors, texts, and hashes of texts."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from partition_ops.chunked.graph_writer import matrix_of
from partition_ops.errors import InvalidInputError

NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$"
Array = npt.NDArray[Any]


def numbers_of(column: pa.Array, where: str) -> Array:
    """Return a column without nulls as an array of numbers; times become seconds since 1970, int64.

    Raises:
        InvalidInputError: The values are not numbers.
    """
    kind = column.type
    if pa.types.is_decimal(kind):
        column = column.cast(pa.float64())
    elif pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        column = pc.floor_temporal(column.cast(pa.timestamp("us")), unit="second")
        column = column.cast(pa.timestamp("s")).cast(pa.int64())
    elif pa.types.is_string(kind):
        raise InvalidInputError(
            f"{where}: the column has text",
            found=repr(next(iter(column.slice(0, 1).to_pylist()), "")),
            expected="numbers",
            remedy="Use the transform one-hot or hash, list the column under 'text', or correct its type with"
            " 'types'.",
        )
    return matrix_of(column, where)


def vectors_of(texts: pa.Array, separator: str) -> pa.Array:
    """Return lists of float64 that are written as text, such as ``[0.5, 1]``; null where a text is no list.

    Args:
        texts: The texts.
        separator: Between two numbers, beside spaces.
    """
    plain = pc.utf8_trim(texts, " \t[](){}")
    blank = not separator.strip()
    lists = pc.split_pattern_regex(plain, r"\s+") if blank else pc.split_pattern(plain, separator)
    flat = pc.utf8_trim_whitespace(lists.flatten())
    number = pc.fill_null(pc.match_substring_regex(flat, NUMBER), False).to_numpy(zero_copy_only=False)
    values = pc.if_else(pa.array(number), flat, None).cast(pa.float64())
    owners = pc.list_parent_indices(lists).to_numpy(zero_copy_only=False)
    wrong = np.bincount(owners[~number], minlength=len(lists)) > 0
    null = wrong | ~lists.is_valid().to_numpy(zero_copy_only=False)
    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    found = pa.ListArray.from_arrays(pa.array(offsets), values)
    return pc.if_else(pa.array(~null), found, pa.scalar(None, found.type))


def texts_of(column: pa.Array, where: str) -> pa.Array:
    """Return a column of categories as text.

    Raises:
        InvalidInputError: The values are lists or fractions.
    """
    if pa.types.is_nested(column.type) or pa.types.is_floating(column.type):
        raise InvalidInputError(
            f"{where}: the values are no categories",
            found=str(column.type),
            expected="text, whole numbers, booleans or dates",
            remedy="Use another transform, or set the type with 'types'.",
        )
    return column.cast(pa.string())


def hashes_of(texts: pa.Array) -> npt.NDArray[np.uint64]:
    """Return a hash of each text, uint64: the same everywhere and always."""
    digests = b"".join(hashlib.blake2b(text.encode(), digest_size=8).digest() for text in texts.to_pylist())
    return np.frombuffer(digests, dtype="<u8")
