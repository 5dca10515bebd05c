"""Transforms of columns into features: fitted on the training rows, stored as JSON, applied block by block.

A transform that was fitted for an earlier graph is applied unchanged to a grown one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from statistics import NormalDist
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from partition_ops.errors import InvalidInputError
from partition_ops.stages.ingest.graph_types import FeatureColumn
from partition_ops.stages.ingest.values import hashes_of, numbers_of, texts_of

MOST_CATEGORIES = 4096
MOST_CODES = 1 << 20
RANKS = 1000
NORMAL = NormalDist()
SHOWN = 5
Array = npt.NDArray[Any]


class Outside:
    """Values for which nothing was fitted, but for those that stand for nulls."""

    def __init__(self) -> None:
        self.count = 0
        self.first: dict[Any, None] = {}

    def add(self, values: Sequence[Any]) -> None:
        self.count += len(values)
        for value in dict.fromkeys(values):
            if len(self.first) < SHOWN:
                self.first[value] = None


class Transform(ABC):
    """Makes the rows of a feature from blocks of a column.

    Args:
        feature: The feature.
        where: Feature and type, for messages.
        width: How many numbers a value of the column has.

    Attributes:
        state: What was fitted, as JSON; None if it is not. The caller sets it to what `finish` returns, or to
            that of the previous graph.
        check: The finding about values for which nothing was fitted; empty if there is none.
        outside: These values.
    """

    check: ClassVar[str] = ""
    continues: ClassVar[bool] = False
    """Whether all rows are fitted, and those of a grown graph again."""

    def __init__(self, feature: FeatureColumn, where: str, width: int) -> None:
        self.feature = feature
        self.where = where
        self.width = width
        self.state: dict[str, Any] | None = None
        self.outside = Outside()
        self._begin()

    def _begin(self) -> None:  # noqa: B027 - some transforms have nothing to begin with
        """Set what the transform collects, and `state` if there is nothing to fit."""

    def can_fit(self, column: pa.Array) -> bool:
        """Return whether all values of a block are finite, if they are numbers."""
        return True

    @abstractmethod
    def fit(self, column: pa.Array) -> None:
        """Take a block of training rows without nulls, which `can_fit`."""

    @abstractmethod
    def finish(self) -> dict[str, Any]:
        """Return what was fitted, as JSON, once all training rows were taken."""

    @abstractmethod
    def transform(self, column: pa.Array) -> Array:
        """Return the rows of the feature for a block without nulls."""

    @property
    def fitted(self) -> dict[str, Any]:
        return self.state or {}

    def fill(self) -> Any:
        """Return the value that stands for nulls, of the column's type."""
        return self.feature.missing

    def row_numbers(self) -> int:
        """Return how many numbers a row of the feature, or of its column, has."""
        return self.width

    def apply(self, column: pa.Array) -> Array:
        """Return the rows of the feature; nulls are replaced by the value for them.

        Raises:
            InvalidInputError: The values do not fit the transform.
        """
        return self.transform(self.filled(column))

    def filled(self, column: pa.Array) -> pa.Array:
        """Return a block in which nulls are replaced, as far as the graph.yaml says by what."""
        if column.null_count == 0 or self.feature.missing is None:
            return column
        try:
            if not pa.types.is_list(column.type):
                return pc.fill_null(column, pa.scalar(self.fill(), column.type))
            fill = self.fill()
            lists = pa.array([fill if isinstance(fill, list) else [fill] * self.width], column.type)
            null = column.is_null().to_numpy(zero_copy_only=False)
            places = np.where(null, len(column), np.arange(len(column)))
            return pa.concat_arrays([column, lists]).take(pa.array(places))
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, TypeError) as error:
            raise InvalidInputError(
                f"{self.where}: 'missing' is no value of the column",
                found=repr(self.feature.missing),
                expected=f"a value of the type {column.type}",
            ) from error


class Numbers(Transform):
    """The values as they are, or with another dtype; with the mean for nulls, if that is asked for."""

    def _begin(self) -> None:
        self._count, self._mean, self._spread = 0, np.zeros(()), np.zeros(())
        self._low, self._high = np.zeros(()), np.zeros(())
        self._values: list[Array] = []  # for quantiles
        if self.feature.transform == "none" and self.feature.missing != "mean":
            self.state = {}

    def can_fit(self, column: pa.Array) -> bool:
        return bool(np.isfinite(self._numbers(column)).all())

    def fit(self, column: pa.Array) -> None:
        """Merge mean, spread and limits with those of a block (Chan's algorithm), in float64."""
        values = self._numbers(column)
        if not len(values):
            return
        count = self._count + len(values)
        mean, spread = values.mean(axis=0), values.var(axis=0) * len(values)
        low, high = values.min(axis=0), values.max(axis=0)
        if not self._count:
            self._mean, self._spread, self._low, self._high = mean, spread, low, high
        else:
            step = mean - self._mean
            self._mean = self._mean + step * (len(values) / count)
            self._spread = self._spread + spread + step**2 * (self._count * len(values) / count)
            self._low, self._high = np.minimum(self._low, low), np.maximum(self._high, high)
        self._count = count

    def finish(self) -> dict[str, Any]:
        if not self._count:
            raise InvalidInputError(
                f"{self.where}: there is no value to fit {self.feature.transform!r} on",
                found="no training row with a value",
                expected="one or more",
                remedy="Check the split, or leave the feature out.",
            )
        return {"mean": self._mean.tolist()} if self.feature.missing == "mean" else {}

    def fill(self) -> Any:
        return self.fitted["mean"] if self.feature.missing == "mean" else self.feature.missing

    def filled(self, column: pa.Array) -> pa.Array:
        kind = column.type
        if self.feature.missing == "mean" and (pa.types.is_integer(kind) or pa.types.is_decimal(kind)):
            column = column.cast(pa.float64(), safe=False)  # a mean is no whole number
        return super().filled(column)

    def transform(self, column: pa.Array) -> Array:
        values = self._values_of(column)
        return self._with_dtype(values) if self.feature.dtype else values

    def _with_dtype(self, values: Array) -> Array:
        """Return values with the dtype of the feature; fractions may lose digits, and nothing else.

        Raises:
            InvalidInputError: A value is out of the range of the dtype.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            found = values.astype(self.feature.dtype)
            back = np.trunc(values) if values.dtype.kind == "f" and found.dtype.kind in "iu" else values
            if found.dtype.kind == "f":
                lost = np.isfinite(values) & ~np.isfinite(found)
            elif found.dtype.kind == "b":
                return found
            else:
                lost = (found != back) | ((found < 0) != (back < 0))
        if lost.any():
            raise InvalidInputError(
                f"{self.where}: a value does not fit into {self.feature.dtype}",
                found=str(values[lost].flat[0]),
                remedy="Use a larger dtype, or leave 'dtype' out.",
            )
        return found

    def _numbers(self, column: pa.Array) -> Array:
        return np.asarray(self._values_of(column), np.float64)

    def _values_of(self, column: pa.Array) -> Array:
        """Return the numbers of a block without nulls, truncated and within the bounds."""
        values, bounds, keep = numbers_of(column, self.where), self.feature.bounds, self.feature.truncate
        if keep and len(values) and (values.ndim < 2 or values.shape[1] < keep):
            raise InvalidInputError(
                f"{self.where}: there are fewer numbers than 'truncate' keeps",
                found=f"{values.shape[1] if values.ndim > 1 else 1} in a row",
                expected=f"{keep} or more",
            )
        values = values[:, :keep] if keep and values.ndim > 1 else values
        if not bounds:
            return values
        whole = values.dtype.kind in "iu" and all(float(one).is_integer() for one in bounds)
        return np.clip(values, bounds[0], bounds[1]).astype(
            values.dtype if whole or values.dtype.kind == "f" else np.float64
        )


class Standardise(Numbers):
    """(value - mean) / standard deviation, float32; 1 is taken for a deviation of 0."""

    def finish(self) -> dict[str, Any]:
        super().finish()
        return {"mean": self._mean.tolist(), "deviation": np.sqrt(self._spread / self._count).tolist()}

    def transform(self, column: pa.Array) -> Array:
        deviation = np.asarray(self.fitted["deviation"])
        values: Array = self._numbers(column) - np.asarray(self.fitted["mean"])
        return (values / np.where(deviation == 0, 1, deviation)).astype(np.float32)


class MinMax(Numbers):
    """(value - least) / (largest - least), float32; other rows than the training rows may exceed 0 to 1."""

    check = "out_of_range"

    def finish(self) -> dict[str, Any]:
        return {"min": self._low.tolist(), "max": self._high.tolist(), **super().finish()}

    def transform(self, column: pa.Array) -> Array:
        low, high = np.asarray(self.fitted["min"]), np.asarray(self.fitted["max"])
        values = self._numbers(column)
        outside = (values < low) | (values > high)
        if outside.any():
            fill = self.fill()
            if fill is not None:
                outside &= values != np.asarray(fill, np.float64)
            self.outside.add(values[outside].tolist())
        scaled: Array = (values - low) / np.where(high == low, 1, high - low)
        return scaled.astype(np.float32)


class RankGauss(Numbers):
    """The rank of a value among the training rows as a value of the normal distribution, float32.

    Ranks between those of `RANKS` quantiles are interpolated. Memory to fit: 8 bytes a number.
    """

    def fit(self, column: pa.Array) -> None:
        super().fit(column)
        self._values.append(self._numbers(column))

    def finish(self) -> dict[str, Any]:
        mean, values = super().finish(), np.concatenate(self._values)
        places = np.linspace(0, 1, min(len(values), RANKS))
        limits = np.quantile(values, places, axis=0)
        self._values = []
        return {**mean, "quantiles": limits.T.tolist(), "rows": len(values)}

    def transform(self, column: pa.Array) -> Array:
        values, limits = self._numbers(column), np.atleast_2d(np.asarray(self.fitted["quantiles"]))
        places = np.linspace(0, 1, limits.shape[1]) if limits.shape[1] > 1 else np.array([0.5])
        edge = 0.5 / self.fitted["rows"]
        normal = np.array([NORMAL.inv_cdf(one) for one in np.clip(places, edge, 1 - edge)])
        found = np.empty((len(values), len(limits)), np.float32)
        for index, own in enumerate(limits):  # the mean of both ends where several quantiles are equal
            one = values if values.ndim == 1 else values[:, index]
            up, down = np.interp(one, own, normal), np.interp(-one, -own[::-1], -normal[::-1])
            found[:, index] = (up - down) / 2
        return found[:, 0] if values.ndim == 1 else found


class Bucket(Numbers):
    """The number of the bucket of a value, int64 from 0: limits are written down or quantiles.

    Memory to fit quantiles: 8 bytes a training row.
    """

    def _begin(self) -> None:
        super()._begin()
        if self.feature.boundaries and self.feature.missing != "mean":
            self.state = {"boundaries": [*map(float, self.feature.boundaries)]}

    def fit(self, column: pa.Array) -> None:
        super().fit(column)
        if not self.feature.boundaries:
            self._values.append(self._numbers(column))

    def finish(self) -> dict[str, Any]:
        mean, limits = super().finish(), [*map(float, self.feature.boundaries)]
        if not limits:
            places = np.arange(1, self.feature.buckets) / self.feature.buckets
            limits = np.unique(np.quantile(np.concatenate(self._values), places, method="lower")).tolist()
        self._values = []
        return {**mean, "boundaries": limits}

    def transform(self, column: pa.Array) -> Array:
        limits, values = np.asarray(self.fitted["boundaries"], np.float64), self._numbers(column)
        if np.isnan(values).any():
            raise InvalidInputError(
                f"{self.where}: a value is in no bucket",
                found="NaN",
                expected="numbers",
                remedy="Correct the rows, or set 'missing' of the feature and leave them empty.",
            )
        return np.searchsorted(limits, values, side="right").astype(np.int64)


class _Categories(Transform):
    """Base of what collects the categories of a column."""

    most: ClassVar[int]
    wanted: ClassVar[str]  # what they are for
    limit: ClassVar[str] = ""  # what sets it, after the number
    instead: ClassVar[str] = ""  # another remedy

    def _begin(self) -> None:
        self._found: set[str] = set()

    def fit(self, column: pa.Array) -> None:
        self._found.update(pc.unique(texts_of(column, self.where)).to_pylist())
        if len(self._found) > self.most:
            raise InvalidInputError(
                f"{self.where}: there are too many categories for {self.wanted}",
                found=f"more than {self.most:,}",
                expected=f"at most {self.most:,}{self.limit}",
                remedy=f"Use the transform hash{self.instead}.",
            )


class OneHot(_Categories):
    """A column for each category of the training rows, in their order, float32; others have only zeros."""

    check = "unknown_categories"
    most, wanted = MOST_CATEGORIES, "one-hot"

    def finish(self) -> dict[str, Any]:
        return {"categories": sorted(self._found)}

    def row_numbers(self) -> int:
        return max(len(self.fitted["categories"]), 1)

    def transform(self, column: pa.Array) -> Array:
        texts = texts_of(column, self.where)
        categories = pa.array(self.fitted["categories"], pa.string())
        places = pc.fill_null(pc.index_in(texts, categories), -1).to_numpy(zero_copy_only=False)
        rows = np.zeros((len(column), len(categories)), np.float32)
        known = np.flatnonzero(places >= 0)
        if len(known) < len(rows):
            unknown = texts.filter(pa.array(places < 0)).drop_null().to_pylist()
            self.outside.add([text for text in unknown if text != self.feature.missing])
        rows[known, places[known]] = 1
        return rows


class Category(_Categories):
    """The code of a category, int64: its place among those of all rows; a grown graph appends new ones."""

    check = "new_categories"
    continues = True
    most, wanted = MOST_CODES, "codes"
    limit, instead = ", which ingest.json can hold", ", or make a node type of the categories"

    def finish(self) -> dict[str, Any]:
        known = list(self.fitted.get("categories", []))
        missing = self.feature.missing
        more = self._found | ({str(missing)} if missing is not None else set())
        new = sorted(more - {*known})
        if known:
            self.outside.add(new)
        return {"categories": [*known, *new]}

    def transform(self, column: pa.Array) -> Array:
        categories = pa.array(self.fitted["categories"], pa.string())
        places = pc.index_in(texts_of(column, self.where), categories)
        return np.asarray(places.to_numpy(zero_copy_only=False), np.int64)


class MultiHot(OneHot):
    """A column for each category, float32: 1 for all that the list of a row has. Null is an empty list."""

    def fit(self, column: pa.Array) -> None:
        super().fit(self._lists(column).flatten().drop_null())

    def filled(self, column: pa.Array) -> pa.Array:
        return column

    def transform(self, column: pa.Array) -> Array:
        lists = self._lists(column)
        rows = np.zeros((len(lists), len(self.fitted["categories"])), np.float32)
        texts = texts_of(lists.flatten(), self.where)
        places = pc.index_in(texts, pa.array(self.fitted["categories"], pa.string()))
        places = pc.fill_null(places, -1).to_numpy(zero_copy_only=False)
        owners = pc.list_parent_indices(lists).to_numpy(zero_copy_only=False)
        known = places >= 0
        self.outside.add(texts.filter(pa.array(~known)).drop_null().to_pylist())
        rows[owners[known], places[known]] = 1
        return rows

    def _lists(self, column: pa.Array) -> pa.Array:
        if pa.types.is_list(column.type):
            return column
        texts = texts_of(column, self.where)
        if not self.feature.separator:
            return pc.split_pattern(texts, "\0")  # one category in each row
        lists = pc.split_pattern(texts, self.feature.separator)
        flat = pc.utf8_trim_whitespace(lists.flatten())
        owners = pc.list_parent_indices(lists).to_numpy(zero_copy_only=False)
        kept = pc.not_equal(flat, "").to_numpy(zero_copy_only=False)
        counts = np.bincount(owners[kept], minlength=len(lists))
        offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
        return pa.ListArray.from_arrays(pa.array(offsets), flat.filter(pa.array(kept)))


class HashOf(Transform):
    """A number from 0 to ``buckets`` - 1 for each category, int64; several categories may share one."""

    def _begin(self) -> None:
        self.state = {}

    def fit(self, column: pa.Array) -> None:
        """Take nothing: a hash needs no fit."""

    def finish(self) -> dict[str, Any]:
        return {}

    def transform(self, column: pa.Array) -> Array:
        encoded = texts_of(column, self.where).dictionary_encode()
        hashes = hashes_of(encoded.dictionary) % np.uint64(self.feature.buckets)
        return np.asarray(hashes.astype(np.int64)[encoded.indices.to_numpy(zero_copy_only=False)])


TRANSFORMS: dict[str, type[Transform]] = {
    "none": Numbers,
    "standardise": Standardise,
    "min-max": MinMax,
    "rank-gauss": RankGauss,
    "one-hot": OneHot,
    "multi-hot": MultiHot,
    "category": Category,
    "bucket": Bucket,
    "hash": HashOf,
}
