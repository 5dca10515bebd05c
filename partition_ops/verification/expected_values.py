"""What a value of a table is in the graph: a key, a feature, a label or a mask. Nothing is of ``ingest``."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def key_text(values: Sequence[Any], types: Sequence[str | None]) -> str | None:
    """Return the key of a row as text; None if a column of it is null.

    Args:
        values: Those of the columns of the key.
        types: The types of the columns that ``graph.yaml`` sets.
    """
    parts = [_key_part(value, kind) for value, kind in zip(values, types, strict=True)]
    if None in parts:
        return None
    if len(parts) == 1:
        return parts[0]
    return "|".join(str(part).replace("%", "%25").replace("|", "%7C") for part in parts)


def _key_part(value: Any, kind: str | None) -> str | None:
    if value is None:
        return None
    if kind == "int64":
        return str(int(value))
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.isoformat() if isinstance(value, date) else str(value)


def texts_of(value: Any) -> set[str]:
    """Return how a value may be written as a category: text in CSV may have been read as a number."""
    if isinstance(value, bool):
        return {"true" if value else "false", str(int(value))}
    if not isinstance(value, str):
        return {value.isoformat(sep=" ") if isinstance(value, datetime) else str(value)}
    found = {value}
    if value.lower() in ("true", "false", "t", "f", "yes", "no", "y", "n"):
        truth = value.lower()[0] in "ty"
        found |= {"true" if truth else "false", str(int(truth))}
    for parse in (int, date.fromisoformat):
        with suppress(ValueError):
            found.add(str(parse(value)))
    return found


def is_text_of(text: str | None, value: Any) -> bool:
    """Return whether a stored text is that of a value; libraries write numbers and lists in several ways."""
    if value is None or text is None:
        return value is None and text is None
    if isinstance(value, float | list):
        with suppress(ValueError):
            found = json.loads(text.replace("nan", "NaN").replace("inf", "Infinity"))
            return bool(np.array_equal(np.asarray(found, float), np.asarray(value, float), equal_nan=True))
    return text in texts_of(value) | {str(value)}


def number_of(value: Any) -> Any:
    """Return a value as a number or an array of numbers; None if it is not known what it is.

    Times are seconds since 1970.
    """
    if isinstance(value, datetime):
        moment = value if value.tzinfo else value.replace(tzinfo=UTC)
        return int(moment.timestamp() // 1)
    if isinstance(value, date):
        return (value - date(1970, 1, 1)).days * 86400
    if isinstance(value, list):
        return None if any(one is None for one in value) else np.asarray(value)
    if not isinstance(value, str):
        return value if isinstance(value, int) else float(value)
    for parse in (int, float, lambda text: number_of(datetime.fromisoformat(text))):
        try:
            return parse(value)
        except ValueError:
            continue
    truths = {"true": 1, "false": 0}
    return truths.get(value.lower())


def feature_of(value: Any, declared: Mapping[str, Any], fitted: Mapping[str, Any]) -> list[Any]:
    """Return the rows of a feature that a value may become; none if that is not known.

    Args:
        value: The value in the table, or None.
        declared: The feature, as ``ingest.json`` has it.
        fitted: What was fitted for it.
    """
    kind = declared["transform"]
    if declared.get("columns"):
        value = _filled_row(value, declared, fitted)
    if value is None and declared.get("columns"):
        return []
    if kind == "multi-hot":
        return [_multi_hot(value, declared.get("separator", ""), fitted["categories"])]
    if isinstance(value, str) and declared.get("separator"):
        value = _vector(value, declared["separator"])
    if value is None:
        value = fitted.get("mean") if declared["missing"] == "mean" else declared["missing"]
        if value is None:
            return []
    if kind == "one-hot":
        categories = fitted["categories"]
        return [[float(one == text) for one in categories] for text in texts_of(value)]
    if kind == "hash":
        digests = [hashlib.blake2b(text.encode(), digest_size=8).digest() for text in texts_of(value)]
        return [int.from_bytes(digest, "little") % declared["buckets"] for digest in digests]
    if kind == "category":
        codes = {text: code for code, text in enumerate(fitted["categories"])}
        return [codes[text] for text in texts_of(value) if text in codes]
    number = number_of(value)
    if number is None or kind == "rank-gauss":
        return []
    return _of_number(kind, _bounded(number, declared), fitted)


def _bounded(number: Any, declared: Mapping[str, Any]) -> Any:
    if declared.get("truncate"):
        number = np.asarray(number)[..., : declared["truncate"]]
    return np.clip(number, *declared["bounds"]) if declared.get("bounds") else number


def _filled_row(row: list[Any], declared: Mapping[str, Any], fitted: Mapping[str, Any]) -> list[Any] | None:
    """Return the numbers of several columns, with what stands for nulls; None if nothing does."""
    fill = fitted.get("mean") if declared["missing"] == "mean" else declared["missing"]
    fills = fill if isinstance(fill, list) else [fill] * len(row)
    filled = [other if one is None else one for one, other in zip(row, fills, strict=True)]
    return None if None in filled else [number_of(one) for one in filled]


def _of_number(kind: str, number: Any, fitted: Mapping[str, Any]) -> list[Any]:
    if kind == "standardise":
        deviation = np.asarray(fitted["deviation"])
        return [(np.asarray(number) - fitted["mean"]) / np.where(deviation == 0, 1, deviation)]
    if kind == "min-max":
        width = np.asarray(fitted["max"]) - fitted["min"]
        return [(np.asarray(number) - fitted["min"]) / np.where(width == 0, 1, width)]
    if kind == "bucket":
        return [np.searchsorted(fitted["boundaries"], np.asarray(number, np.float64), side="right")]
    return [number]


def _vector(text: str, separator: str) -> list[float]:
    plain = text.strip(" \t[](){}")
    return [float(one) for one in (plain.split(separator) if separator.strip() else plain.split())]


def _multi_hot(value: Any, separator: str, categories: Sequence[str]) -> list[float]:
    texts = value.split(separator) if isinstance(value, str) and separator else value
    texts = [] if value is None else texts if isinstance(texts, list) else [texts]
    known = {text for one in texts if one is not None for text in texts_of(one.strip() if separator else one)}
    return [float(one in known) for one in categories]


def is_one_of(row: Array, expected: Sequence[Any]) -> bool:
    """Return whether a stored row is one of those that are expected; floats may differ in the last digits."""
    for one in expected:
        array = np.asarray(one)
        if array.shape == row.shape or (row.shape == (1,) and array.shape == ()):
            if row.dtype.kind in "iub" and array.dtype.kind in "iub":
                same = bool(np.all(array == row))
            else:
                tolerance = 1e-2 if row.dtype == np.float16 else 1e-5
                same = np.allclose(row.astype(np.float64), array.astype(np.float64), tolerance, 1e-6, True)
            if same:
                return True
    return False
