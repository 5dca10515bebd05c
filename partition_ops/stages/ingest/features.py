"""Write the features, labels, masks and texts of a type from its rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from partition_ops.chunked.graph_writer import ORIG_ID, GraphWriter, NpyFiles, ParquetFiles
from partition_ops.errors import InvalidInputError
from partition_ops.stages.ingest.buckets import Buckets
from partition_ops.stages.ingest.columns import LABEL, MASKS, Columns
from partition_ops.stages.ingest.engines import ROW_KEY
from partition_ops.stages.ingest.findings import Findings
from partition_ops.stages.ingest.graph_types import PARTS, EdgeTable, FeatureColumn, Split
from partition_ops.stages.ingest.keys import KEY, NO_IDS, Numbered, joined_keys, key_schema
from partition_ops.stages.ingest.problems import SHOWN
from partition_ops.stages.ingest.transforms import Transform
from partition_ops.stages.ingest.values import hashes_of, numbers_of, texts_of, vectors_of
from partition_ops.system.mapped_files import new_array
from partition_ops.system.open_files import allow_open_files

MOST_CLASSES = 1 << 16
NO_PART = 255
Array = npt.NDArray[Any]
Mask = npt.NDArray[np.bool_]


@dataclass
class ColumnWriter:
    """Fits and writes the columns of a type."""

    columns: Columns  # what becomes of them
    buckets: Buckets  # the rows
    writer: GraphWriter  # takes the files
    block_bytes: int  # values of a feature in memory at a time
    findings: Findings  # takes what is wrong with rows
    numbered: Numbered | None = None  # the nodes, if they are a node type
    label: str = LABEL
    masks: Mapping[str, str] = field(default_factory=lambda: MASKS)

    def __post_init__(self) -> None:
        self.spec = self.columns.spec
        keyed = isinstance(self.spec, EdgeTable) and bool(self.spec.key)
        self._edge_keys = keyed and self.label == LABEL  # once, and not for each further label
        self._hashed = _HashedParts(self.buckets)
        self._nulls: dict[str, int] = {}
        self._overlaps = 0
        self._overlapping: list[int] = []
        self._parts: Counter[str] = Counter()
        self._unnamed: Counter[str] = Counter()
        self._seen: set[Any] = set()
        self._seen_in_training: set[Any] = set()
        self._isolated = NO_IDS if self.numbered is None else self.numbered.isolated

    def write(self) -> None:
        """Fit what is not fitted yet, and write all columns.

        Raises:
            InvalidInputError: A column does not fit its transform.

        Peak memory: two buckets of the columns, ``block_bytes`` for values, and what transforms keep.
        """
        self._fit()
        if self.findings.failed:
            return
        spec, edges = self.spec, isinstance(self.spec, EdgeTable)
        allow_open_files(len(spec.features) + len(spec.text))
        with ExitStack() as stack:
            files: dict[str, NpyFiles] = {}

            def append(name: str, rows: Array) -> None:
                if name not in files:
                    file = self.writer.feature_file(spec.name, name, self.columns.chunk_rows, edges=edges)
                    files[name] = stack.enter_context(file)
                files[name].append(rows)

            texts = [(name, of, stack.enter_context(file)) for name, of, file in self._text_files()]
            begin = 0
            for block in self.buckets.pieces(self._needed(spec.used)):
                features = self._features(block, self._rows_of_nodes(begin, len(block)))
                for name, rows in chain(features, self._labels_and_masks(block, begin).items()):
                    append(name, rows)
                ids = pa.array(np.arange(begin, begin + len(block)))
                for name, of, file in texts:
                    file.append(pa.table({ORIG_ID: ids, name: of(block)}))
                begin += len(block)
        for transform in self.columns.transforms.values():
            self.findings.report_outside(spec, transform.feature, transform.outside, transform.check)
        for name, npy in files.items():
            self.writer.add_feature(spec.name, name, npy, edges=edges)
        for name, _, file in texts:
            if edges:
                self.writer.add_column("edge_ids", spec.name, file, name)
            else:
                self.writer.add_text(spec.name, name, file)
        for name, columns in self.columns.labels.items():
            masks = {part: f"{mask}_{name}" for part, mask in MASKS.items()}
            replace(self, columns=columns, label=f"{LABEL}_{name}", masks=masks).write()

    def _rows_of_nodes(self, begin: int, count: int) -> Mask:
        """Return which rows of a block are not of isolated nodes."""
        kept = np.ones(count, np.bool_)
        first, last = np.searchsorted(self._isolated, (begin, begin + count))
        kept[self._isolated[first:last] - begin] = False
        return kept

    def _features(self, block: pa.Table, kept: Mask) -> Iterator[tuple[str, Array]]:
        """Yield names and rows of features, as many rows at a time as fit into memory as float64.

        Rows that are not ``kept`` become zeros.
        """
        for feature in self.spec.features:
            transform = self.columns.transforms[feature.name]
            column = self._column(block, feature, transform)
            step = max(self.block_bytes // (8 * transform.row_numbers()), 1)
            for first in range(0, len(column), step):
                own = kept[first : first + step]
                if own.all():
                    yield feature.name, transform.apply(column.slice(first, step))
                    continue
                found = transform.apply(column.slice(first, step).filter(pa.array(own)))
                rows = np.zeros((len(own), *found.shape[1:]), found.dtype)
                rows[own] = found
                yield feature.name, rows

    def _column(self, block: pa.Table, feature: FeatureColumn, transform: Transform) -> pa.Array:
        """Return what a feature is made of: a column, lists that are written in it, or rows of several.

        Raises:
            InvalidInputError: A text is no list of numbers, or one of several columns has lists.
        """
        if not feature.columns:
            column = _plain(block.column(feature.column))
            if (
                not feature.separator
                or feature.transform == "multi-hot"
                or not pa.types.is_string(column.type)
            ):
                return column
            found = vectors_of(column, feature.separator)
            wrong = column.filter(pc.and_(found.is_null(), column.is_valid()))
            if len(wrong):
                self.findings.reject_text(self.spec, feature, wrong[0].as_py())
            return found
        fill = transform.fill() if transform.state is not None else None
        values = []
        for index, name in enumerate(feature.columns):
            column = _plain(block.column(name))
            if column.null_count and fill is not None:
                one = fill[index] if isinstance(fill, list) else fill
                column = pc.fill_null(column.cast(pa.float64()) if isinstance(one, float) else column, one)
            values.append(column)
        return rows_of(values, transform.where)

    def _text_files(self) -> Iterator[tuple[str, Callable[[pa.Table], pa.Array], ParquetFiles]]:
        """Yield the column of each text and of the keys of edges, what takes it from rows, and its files."""
        for name in self.spec.text:
            schema = pa.schema([(ORIG_ID, pa.int64()), (name, pa.string())])
            yield (
                name,
                partial(_text_of, name),
                self.writer.table_file("node_text", f"{self.spec.name}/{name}", schema),
            )
        if self._edge_keys:
            kind = self._keys(self.columns.source.schema.empty_table()).type
            schema = key_schema(not pa.types.is_integer(kind))
            yield KEY, self._keys, self.writer.table_file("edge_ids", self.spec.name, schema)

    def _keys(self, block: pa.Table) -> pa.Array:
        """Return the keys of rows: those of edges, or those of nodes that came with the rows."""
        names = self.spec.key if isinstance(self.spec, EdgeTable) and self.spec.key else (ROW_KEY,)
        return joined_keys([_plain(block.column(name)) for name in names])

    def _needed(self, names: Sequence[str]) -> list[str]:
        """Return columns, with those that say in which part of a split a row is."""
        split, own = self.spec.split, self.spec.key if isinstance(self.spec, EdgeTable) else ()
        key = (ROW_KEY,) if self.columns.needs_key else own if split is not None and split.shares else ()
        return list(dict.fromkeys([*names, *key]))

    def _fit(self) -> None:
        """Read all rows once: count nulls, fit transforms, and look at labels and masks."""
        spec, transforms = self.spec, self.columns.transforms
        unfitted = [
            f for f in spec.features if transforms[f.name].state is None or transforms[f.name].continues
        ]
        strict = [f for f in spec.features if f.missing is None]
        label = [spec.label] if spec.label else []
        split = spec.split.columns if spec.split else []
        names = [*(name for f in (*unfitted, *strict) for name in f.parts), *label, *split]
        begin = 0
        for block in self.buckets.blocks(self._needed(names), self.columns.fit_rows) if names else ():
            masks = self._masks(block, begin)
            kept = self._rows_of_nodes(begin, len(block))
            training = masks["train"] if masks else kept
            for column in dict.fromkeys(name for feature in strict for name in feature.parts):
                nulls = block.column(column).null_count - int((~kept).sum())
                self._nulls[column] = self._nulls.get(column, 0) + nulls
            for feature in unfitted:
                rows = self._column(block, feature, transforms[feature.name])
                if not transforms[feature.name].continues:
                    rows = rows.filter(pa.array(training))
                known = rows.drop_null()
                if not transforms[feature.name].can_fit(known):
                    self.findings.reject_not_finite(spec, feature)
                transforms[feature.name].fit(known)
            if label:
                self._look_at_labels(block, training)
            if masks:
                self._look_at_split(block, masks, begin)
            begin += len(block)
        self.report(begin)
        if isinstance(spec, EdgeTable) and self._edge_keys:
            self.findings.check_edge_keys(spec)
        if not self.findings.failed:
            for feature in unfitted:
                transforms[feature.name].state = transforms[feature.name].finish()

    def report(self, rows: int) -> None:
        """Report what all rows have shown."""
        spec = self.spec
        for column, count in self._nulls.items():
            if count:
                self.findings.report_nulls(spec, column, count)
        if self._overlaps:
            ids = self._overlapping[:SHOWN]
            self.findings.report_overlaps(spec, self._overlaps, ids, self.numbered)
        if spec.split is not None and rows:
            split = spec.split
            named = split.values or split.masks or (["train", *split.starts] if split.starts else [])
            self.findings.report_split(spec, [p for p in named if not self._parts[p]], self._unnamed)
        if spec.classifies:
            new = sorted(self._seen - {*self.columns.classes})
            if new and self.columns.classes:
                self.findings.report_new_classes(spec, new)
            self.columns.classes += new
            lost = sorted(self._seen - self._seen_in_training)
            if lost and spec.split is not None:
                self.findings.report_classes(spec, lost, len(self._seen))

    def masks_of(self, block: pa.Table, begin: int) -> dict[str, Mask]:
        """Return the masks of rows by their names, and count the rows for `report`.

        Args:
            block: Rows with the columns of the split.
            begin: ID of the first one.
        """
        masks = self._masks(block, begin)
        if masks:
            self._look_at_split(block, masks, begin)
        return {self.masks[part]: mask for part, mask in masks.items()}

    def _look_at_split(self, block: pa.Table, masks: Mapping[str, Mask], begin: int) -> None:
        """Count the rows of each part, those in several, and the values that no part names."""
        self._parts.update({part: int(mask.sum()) for part, mask in masks.items()})
        several = np.stack([*masks.values()]).sum(axis=0) > 1
        self._overlaps += int(several.sum())
        self._overlapping += (begin + np.flatnonzero(several)[:SHOWN]).tolist()
        split = self.spec.split
        if split is not None and split.column:
            texts = texts_of(_plain(block.column(split.column)), f"{self.spec.about}: split").drop_null()
            named = pa.array([text for values in split.values.values() for text in values], pa.string())
            others = texts.filter(pc.invert(pc.is_in(texts, named))).value_counts()
            for value, count in zip(others.field(0).to_pylist(), others.field(1).to_pylist(), strict=True):
                self._unnamed[value] += count

    def _masks(self, block: pa.Table, begin: int) -> dict[str, Mask]:
        """Return the rows of each part, if there is a split; ``begin`` is the ID of the first row."""
        split = self.spec.split
        if split is None:
            return {}
        if split.shares:
            found = self._hashed.parts(begin, len(block), lambda: self._parts_of(split, block))
            return {part: found == place for place, part in enumerate(PARTS)}
        if split.time:
            return self._by_time(split, _plain(block.column(split.time)))
        if split.masks:
            return {
                part: self._truth(block, split.masks[part])
                if part in split.masks
                else np.zeros(len(block), np.bool_)
                for part in PARTS
            }
        texts = texts_of(_plain(block.column(split.column)), f"{self.spec.about}: split")
        return {
            part: pc.is_in(texts, pa.array(split.values.get(part, ()), pa.string())).to_numpy(
                zero_copy_only=False
            )
            for part in PARTS
        }

    def _parts_of(self, split: Split, block: pa.Table) -> npt.NDArray[np.uint8]:
        """Return the number of the part of each row, which follows from its key; `NO_PART` for none."""
        keys = self._keys(block).cast(pa.string())
        place = hashes_of(pc.fill_null(keys, "")) / 2.0**64
        place[~keys.is_valid().to_numpy(zero_copy_only=False)] = np.inf  # a node that an edge added
        ends = np.cumsum([0.0, *split.shares])
        found = np.searchsorted(ends, place, side="right") - 1
        return np.where(found < len(PARTS), found, NO_PART).astype(np.uint8)

    def _by_time(self, split: Split, column: pa.Array) -> dict[str, Mask]:
        """Return the rows of each part by their times; a row without one is in no part."""
        known = column.is_valid().to_numpy(zero_copy_only=False)
        times = np.zeros(len(column), np.float64)
        times[known] = numbers_of(column.drop_null(), f"{self.spec.about}: split")
        val, test = split.starts.get("val"), split.starts.get("test")
        begins = [-np.inf, np.inf if val is None else val, np.inf if test is None else test]
        begins[1] = min(begins[1:])
        ends = [*begins[1:], np.inf]
        masks = [known & (begin <= times) & (times < end) for begin, end in zip(begins, ends, strict=True)]
        return dict(zip(PARTS, masks, strict=True))

    def _truth(self, block: pa.Table, name: str) -> Mask:
        column = _plain(block.column(name))
        if not (pa.types.is_boolean(column.type) or pa.types.is_integer(column.type)):
            raise InvalidInputError(
                f"{self.spec.about}: the mask {name!r} is not a column of booleans", found=str(column.type)
            )
        filled = pc.fill_null(column.cast(pa.bool_()), False)
        return np.asarray(filled.to_numpy(zero_copy_only=False), np.bool_)

    def _labels_and_masks(self, block: pa.Table, begin: int) -> dict[str, Array]:
        masks = self._masks(block, begin)
        found: dict[str, Array] = {self.masks[part]: rows for part, rows in masks.items()}
        if self.spec.label:
            column = _plain(block.column(self.spec.label))
            if self.spec.task == "regression":
                numbers = numbers_of(pc.fill_null(column.cast(pa.float64()), np.nan), self.spec.about)
                found[self.label] = numbers.astype(np.float32)
            else:
                places = pc.index_in(_categories(column), pa.array(self.columns.classes))
                found[self.label] = pc.fill_null(places, -1).to_numpy(zero_copy_only=False).astype(np.int64)
        return found

    def _look_at_labels(self, block: pa.Table, training: Mask) -> None:
        if not self.spec.classifies:
            return
        labels = _categories(_plain(block.column(self.spec.label)))
        self._seen.update(pc.unique(labels.drop_null()).to_pylist())
        self._seen_in_training.update(pc.unique(labels.filter(pa.array(training)).drop_null()).to_pylist())
        if len(self._seen) > MOST_CLASSES:
            raise InvalidInputError(
                f"{self.spec.about}: the label {self.spec.label!r} has too many classes",
                found=f"more than {MOST_CLASSES}",
                remedy="If it is a number to predict, set task: regression.",
            )


class _HashedParts:
    """Parts of rows that follow from hashes, in a file beside the rows, because each is asked for twice."""

    def __init__(self, buckets: Buckets) -> None:
        self._buckets, self._known = buckets, 0
        self._kept: npt.NDArray[np.uint8] = np.zeros(0, np.uint8)

    def parts(self, begin: int, count: int, find: Callable[[], npt.NDArray[np.uint8]]) -> Array:
        """Return the parts of ``count`` rows from the ID ``begin`` on; ``find`` finds those of new rows."""
        if begin + count <= self._known:
            return self._kept[begin : begin + count]
        found = find()
        if begin == self._known and self._buckets.ranges:
            if not begin:
                path = self._buckets.ranges[0].path.parent / "parts"
                self._kept = new_array(path, (self._buckets.count,), np.uint8)
            self._kept[begin : begin + count] = found
            self._known += count
        return found


def _categories(column: pa.Array) -> pa.Array:
    """Return labels as whole numbers or text."""
    if pa.types.is_integer(column.type) or pa.types.is_boolean(column.type):
        return column.cast(pa.int64())
    return texts_of(column, "label")


def _text_of(name: str, block: pa.Table) -> pa.ChunkedArray:
    return block.column(name).cast(pa.string())


def _plain(column: pa.ChunkedArray) -> pa.Array:
    array = column.combine_chunks()
    return array if isinstance(array, pa.Array) else pa.concat_arrays(array.chunks)


def rows_of(columns: Sequence[pa.Array], where: str) -> pa.Array:
    """Return columns of numbers as lists; a list is null if one of its numbers is.

    Raises:
        InvalidInputError: A column has no numbers, or lists.
    """
    nulls = np.zeros(len(columns[0]), np.bool_)
    arrays = []
    for column in columns:
        if pa.types.is_nested(column.type):
            raise InvalidInputError(
                f"{where}: one of several columns has lists",
                found=str(column.type),
                expected="a number in each row",
            )
        nulls |= column.is_null().to_numpy(zero_copy_only=False)
        zero = pa.scalar(False if pa.types.is_boolean(column.type) else 0).cast(column.type)
        arrays.append(numbers_of(pc.fill_null(column, zero), where))
    values = np.column_stack(arrays) if arrays else np.zeros((0, 0))
    offsets = pa.array(np.arange(len(values) + 1) * len(arrays), pa.int32())
    lists = pa.ListArray.from_arrays(offsets, pa.array(values.reshape(-1)))
    return pc.if_else(pa.array(~nulls), lists, pa.scalar(None, lists.type)) if nulls.any() else lists
