"""A look at every value of every feature: what is wrong is counted, not raised."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from partition_ops.chunked.feature_reader import ChunkLayout, FeatureReader, is_supported
from partition_ops.chunked.metadata import Feature
from partition_ops.chunked.table_files import passed_over
from partition_ops.errors import InvalidInputError
from partition_ops.stages.validate.defects import EXAMPLES, Defects
from partition_ops.storage import Store

Values = npt.NDArray[Any]
VALUES_AT_ONCE = 1 << 20  # few enough to stay in the cache between the two looks at them


@dataclass
class FeatureScan:
    """Figures of one feature.

    Attributes:
        rows: Rows found in the files that can be read.
        values: Numbers in them.
        dtype: Of the first chunk that can be read.
        shape: Of a row of it.
    """

    rows: int = 0
    values: int = 0
    dtype: str = ""
    shape: tuple[int, ...] = ()


def scan_feature(source: Store, feature: Feature, reader: FeatureReader, defects: Defects) -> FeatureScan:
    """Look at every chunk of a feature, one at a time.

    Args:
        source: The graph's root.
        feature: Which feature.
        reader: Reads it.
        defects: Takes what is wrong.

    Returns:
        Its figures. Peak memory: one chunk where it cannot be mapped, and some MB.
    """
    scan = _Scan(feature, defects)
    counts = [
        scan.look_at(index, reader) if source.exists(key) else None  # a missing file is reported elsewhere
        for index, key in enumerate(feature.data.files)
    ]
    scan.check_rows(source, reader, counts)
    return scan.figures


class _Scan:
    """The look at one feature."""

    def __init__(self, feature: Feature, defects: Defects) -> None:
        self.feature = feature
        self.figures = FeatureScan()
        self._defects = defects
        self._first: ChunkLayout | None = None
        self._is_csv = feature.data.format.name == "csv"

    def look_at(self, index: int, reader: FeatureReader) -> int | None:
        """Report what is wrong in one chunk; its rows, or None if it cannot be read."""
        try:
            values = reader.read_chunk(index)
        except InvalidInputError as error:
            self._report("unreadable_files", index, str(error))
            return None
        layout = ChunkLayout(values.dtype.newbyteorder("="), values.shape[1:], len(values))
        if is_supported(layout.dtype):
            self._compare(index, layout)
            self.figures.rows += layout.rows
            self.figures.values += values.size
            self._look_for_nonfinite(index, values)
        else:
            self._report("unsupported_dtype", index, f"{layout.dtype} in {self._where(index)}")
        return layout.rows

    def check_rows(self, source: Store, reader: FeatureReader, counts: list[int | None]) -> None:
        """Compare the rows with the metadata: chunk by chunk where the chunks are those of the type."""
        expected = reader.rows_per_chunk
        if expected is not None and len(expected) == len(counts):
            for index, (found, rows) in enumerate(zip(counts, expected, strict=True)):
                if found is not None and found != rows:
                    what = f"{found} rows in {self._where(index)}, where metadata.json says {rows}"
                    if self._is_csv and found < rows:
                        what += passed_over(source.local_copy(self.feature.data.files[index]))
                    self._report("wrong_count_files", index, what)
        elif None not in counts and sum(filter(None, counts)) != reader.rows:
            total = sum(filter(None, counts))
            what = f"{total} rows in {len(counts)} files, where the type has {reader.rows} nodes or edges"
            self._defects.add("wrong_count_files", self.feature.key, 1, [{"sentence": what}])

    def _compare(self, index: int, layout: ChunkLayout) -> None:
        if self._is_csv and not layout.rows:  # an empty file says nothing about its columns
            return
        if self._first is None:
            self._first = layout
            self.figures.dtype, self.figures.shape = str(layout.dtype), layout.shape
        same_dtype = self._is_csv or layout.dtype == self._first.dtype  # text has no dtype
        if not same_dtype or layout.shape != self._first.shape:
            what = f"{self._where(index)} has {layout}, the chunks before it {self._first}"
            self._report("layout_mismatches", index, what)

    def _look_for_nonfinite(self, index: int, values: Values) -> None:
        if values.dtype.kind != "f" or values.size == 0:
            return
        rows = max(VALUES_AT_ONCE * len(values) // values.size, 1)
        for start in range(0, len(values), rows):
            finite = np.isfinite(values[start : start + rows])
            if not finite.all():
                found = np.argwhere(~finite)
                found[:, 0] += start
                places = map(tuple, found[:EXAMPLES].tolist())
                examples = [self._nonfinite(index, values, place) for place in places]
                self._defects.add("nonfinite_values", self.feature.key, len(found), examples)

    def _nonfinite(self, index: int, values: Values, place: tuple[int, ...]) -> dict[str, Any]:
        what = f"{values[place]} at {list(place)} of {self._where(index)}"
        return {**self._example(index, what), "row": place[0]}

    def _report(self, check: str, index: int, sentence: str) -> None:
        self._defects.add(check, self.feature.key, 1, [self._example(index, sentence)])

    def _example(self, index: int, sentence: str) -> dict[str, Any]:
        return {"file": self.feature.data.files[index], "chunk": index, "sentence": sentence}

    def _where(self, index: int) -> str:
        name, type_name = self.feature.name, self.feature.type_name
        return f"{self.feature.data.files[index]} (feature {name!r} of {type_name!r}, chunk {index})"
