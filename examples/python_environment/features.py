"""Features of modules, classes and functions, from their syntax trees."""

from __future__ import annotations

import ast
import re
import zlib
from collections.abc import Iterable, Sequence
from functools import cache

import numpy as np
import numpy.typing as npt

from examples.python_environment.scopes import Definition
from examples.python_environment.syntax import (
    NUM_KINDS,
    Function,
    has_docstring,
    parameter_groups,
    parameters,
)
from examples.python_environment.walk import Walk

NUM_BUCKETS = 16
WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
Array = npt.NDArray[np.generic]


def of_module(walk: Walk, source: bytes, is_package: bool, documented: bool) -> dict[str, Array]:
    """One row a feature.

    Shapes:
        feat: float32 (1, 32), the logarithm of one plus the number of syntax nodes of each kind.
        lines, bytes: int64 (1,).
        is_package, has_docstring: bool (1,).
    """
    counts = np.sum([scope.syntax for scope in walk.scopes], axis=0, dtype=np.int64)
    return {
        "feat": np.log1p(counts, dtype=np.float32)[None],
        "lines": np.array([source.count(b"\n")]),
        "bytes": np.array([len(source)]),
        "is_package": np.array([is_package]),
        "has_docstring": np.array([documented]),
    }


def of_classes(classes: Sequence[Definition]) -> dict[str, Array]:
    """A row a class.

    Shapes:
        words: float32 (n, 16), the words of the name, hashed.
        lines: int64 (n,).
        num_members: int32 (n,), names bound in the body.
        has_docstring: bool (n,).
    """
    return {
        "words": _hashed([d.node.name] for d in classes),
        "lines": _lines(classes),
        "num_members": np.array([len(d.body.bindings) for d in classes], np.int32),
        "has_docstring": np.array([has_docstring(d.node.body) for d in classes], bool),
    }


def of_functions(functions: Sequence[Definition]) -> dict[str, Array]:
    """A row a function.

    Shapes:
        feat: float32 (n, 32), as for modules, without the functions and classes inside.
        words: float32 (n, 16), the words of its name and of those of its parameters, hashed.
        signature: int8 (n, 5, 3), for positional-only, ordinary, ``*``, keyword-only and ``**`` parameters
            how many there are, have an annotation, have a default.
        lines: int64 (n,).
        is_async, has_docstring: bool (n,).
    """
    nodes = [d.node for d in functions if not isinstance(d.node, ast.ClassDef)]
    counts = np.array([d.body.syntax for d in functions], np.int64).reshape(-1, NUM_KINDS)
    return {
        "feat": np.log1p(counts, dtype=np.float32),
        "words": _hashed([node.name, *(p.arg for p in parameters(node.args))] for node in nodes),
        "signature": np.array([_signature(node) for node in nodes], np.int8).reshape(-1, 5, 3),
        "lines": _lines(functions),
        "is_async": np.array([isinstance(node, ast.AsyncFunctionDef) for node in nodes], bool),
        "has_docstring": np.array([has_docstring(node.body) for node in nodes], bool),
    }


def _lines(definitions: Iterable[Definition]) -> Array:
    return np.array([(d.node.end_lineno or d.node.lineno) - d.node.lineno + 1 for d in definitions], np.int64)


def _signature(node: Function) -> list[tuple[int, int, int]]:
    arguments = node.args
    ordinary = min(len(arguments.defaults), len(arguments.args))  # defaults belong to the last parameters
    keyword_only = sum(default is not None for default in arguments.kw_defaults)
    defaults = (len(arguments.defaults) - ordinary, ordinary, 0, keyword_only, 0)
    return [
        (min(len(group), 127), min(sum(p.annotation is not None for p in group), 127), min(count, 127))
        for group, count in zip(parameter_groups(arguments), defaults, strict=True)
    ]


def _hashed(names: Iterable[list[str]]) -> Array:
    """Signed feature hashing (Weinberger et al., 2009) of the words in identifiers."""
    rows = []
    for row in names:
        buckets = [0.0] * NUM_BUCKETS
        for name in row:
            for bucket, sign in _words(name):
                buckets[bucket] += sign
        rows.append(buckets)
    return np.array(rows, np.float32).reshape(-1, NUM_BUCKETS)


@cache
def _words(identifier: str) -> tuple[tuple[int, float], ...]:
    """Bucket and sign of each word; by CRC, because the hash of a string differs between processes."""
    hashes = [zlib.crc32(word.lower().encode()) for word in WORDS.findall(identifier)]
    return tuple((value % NUM_BUCKETS, 1.0 if value & 0x10000 else -1.0) for value in hashes)
