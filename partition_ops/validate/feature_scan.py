"""A look at every value of every feature: what is wrong is counted, not raised."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from partition_ops.errors import InvalidInputError
from partition_ops.graph.features import ChunkLayout, FeatureReader, is_supported
from partition_ops.graph.metadata import Feature
from partition_ops.storage import Store
from partition_ops.validate.defects import Defects

VALUES_AT_ONCE = 1 << 22


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
        Its figures. Peak memory: one chunk where it cannot be mapped, and 36 MB.
    """
    figures = FeatureScan()
    counts: list[int | None] = []
    first: ChunkLayout | None = None
    for index, key in enumerate(feature.data.files):
        if source.stat(key) is None:
            counts.append(None)  # reported with all files that are missing
            continue
        try:
            values = reader.read_chunk(index)
        except InvalidInputError as error:
            defects.add("unreadable_files", feature.key, 1, [_example(feature, index, str(error))])
            counts.append(None)
            continue
        layout = ChunkLayout(values.dtype.newbyteorder("="), values.shape[1:], len(values))
        counts.append(layout.rows)
        if not is_supported(layout.dtype):
            what = f"{layout.dtype} in {reader.where(index)}"
            defects.add("unsupported_dtype", feature.key, 1, [_example(feature, index, what)])
            continue
        if first is None and (layout.rows or feature.data.format.name != "csv"):
            first = layout
            figures.dtype, figures.shape = str(layout.dtype), layout.shape
        if first is not None and not _alike(first, layout, feature):
            what = f"{reader.where(index)} has {layout}, the chunks before it {first}"
            defects.add("layout_mismatches", feature.key, 1, [_example(feature, index, what)])
        figures.rows += layout.rows
        figures.values += values.size
        _count_nonfinite(feature, index, values, reader, defects)
    _check_rows(feature, reader, counts, defects)
    return figures


def _alike(first: ChunkLayout, layout: ChunkLayout, feature: Feature) -> bool:
    if feature.data.format.name == "csv":  # text has no dtype, and an empty file no columns
        return layout.rows == 0 or layout.shape == first.shape
    return (layout.dtype, layout.shape) == (first.dtype, first.shape)


def _count_nonfinite(
    feature: Feature, index: int, values: npt.NDArray[Any], reader: FeatureReader, defects: Defects
) -> None:
    if values.dtype.kind != "f" or values.size == 0:
        return
    rows = max(VALUES_AT_ONCE * len(values) // values.size, 1)
    for start in range(0, len(values), rows):
        wrong = ~np.isfinite(values[start : start + rows])
        found = np.argwhere(wrong)
        if len(found) == 0:
            continue
        place = found[0].tolist()
        value = values[start + place[0], *place[1:]]
        what = f"{value} at {(start + place[0], *place[1:])} of {reader.where(index)}"
        example = {**_example(feature, index, what), "row": start + place[0]}
        defects.add("nonfinite_values", feature.key, len(found), [example])


def _check_rows(feature: Feature, reader: FeatureReader, counts: list[int | None], defects: Defects) -> None:
    expected = reader.rows_per_chunk
    files = len(feature.data.files)
    if expected is not None and len(expected) == files:
        for index, (found, rows) in enumerate(zip(counts, expected, strict=True)):
            if found is not None and found != rows:
                what = f"{found} rows in {reader.where(index)}, where metadata.json says {rows}"
                defects.add("wrong_count_files", feature.key, 1, [_example(feature, index, what)])
    elif None not in counts and sum(found or 0 for found in counts) != reader.rows:
        total = sum(found or 0 for found in counts)
        what = f"{total} rows in {files} files, where the type has {reader.rows} nodes or edges"
        defects.add("wrong_count_files", feature.key, 1, [{"sentence": what}])


def _example(feature: Feature, index: int, sentence: str) -> dict[str, Any]:
    return {"file": feature.data.files[index], "chunk": index, "sentence": sentence}
