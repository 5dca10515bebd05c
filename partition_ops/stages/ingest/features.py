"""Write the features, labels, masks and texts of a type from its rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from partition_ops.chunked.graph_writer import ORIG_ID, GraphWriter, NpyFiles, rows_of_chunk
from partition_ops.errors import InvalidInputError, some_of
from partition_ops.stages.ingest.buckets import Buckets
from partition_ops.stages.ingest.graph_file import PARTS, FeatureColumn, Split
from partition_ops.stages.ingest.numbering import KEY
from partition_ops.stages.ingest.problems import SHOWN, Problem, count_of, shown
from partition_ops.stages.ingest.tables import ParquetTable
from partition_ops.stages.ingest.transforms import Transform, hashes_of, numbers_of, texts_of, transform_of

BLOCK = 1 << 16  # rows that transforms are fitted to at a time, fewer if they are wide
FIT_BYTES = 16 << 20  # of such a block as float64
MASKS = {part: f"{part}_mask" for part in PARTS}
LABEL = "label"
FIRST_ROWS = 128
MOST_CLASSES = 1 << 16
Array = npt.NDArray[Any]
Mask = npt.NDArray[np.bool_]


@dataclass
class Columns:
    """What becomes of the columns of one node type or edge type.

    Attributes:
        type_name: Node type, or edge type as ``src:rel:dst``.
        where: The same for messages.
        source: The table.
        features: Features to write.
        label: Column of the label, if there is one.
        task: ``classification`` or ``regression``.
        split: How nodes are split, if they are.
        text: Columns whose text is kept.
        actions: What to do about findings.
        fitted: What was fitted for the previous graph, as `state` returned it.
        edges: Whether the type is an edge type.
    """

    type_name: str
    where: str
    source: ParquetTable
    features: Sequence[FeatureColumn]
    label: str = ""
    task: str = "classification"
    split: Split | None = None
    text: Sequence[str] = ()
    actions: Mapping[str, str] = field(default_factory=dict)
    fitted: Mapping[str, Any] = field(default_factory=dict)
    edges: bool = False

    def __post_init__(self) -> None:
        self.widths = {one.column: _width(self.source, one.column) for one in self.features}
        self.transforms: dict[str, Transform] = {}
        for feature in self.features:
            where = f"{self.where}: feature {feature.name!r}"
            transform = transform_of(feature, where, self.widths[feature.column])
            known = self.fitted.get("features", {}).get(feature.name)
            if known is not None:
                self._check_unchanged(feature, known)
                transform.restore(known["fitted"])
            self.transforms[feature.name] = transform
        self.classes: list[Any] = list(self.fitted.get("classes", []))
        names = [feature.name for feature in self.features]
        taken = ([LABEL] if self.label else []) + (list(MASKS.values()) if self.split else [])
        twice = next((name for name in taken if name in names), None)
        if twice is not None:
            raise InvalidInputError(
                f"{self.where}: the feature {twice!r} has the name of the label or of a mask",
                remedy="Rename the feature in graph.yaml.",
            )

    def _check_unchanged(self, feature: FeatureColumn, known: Mapping[str, Any]) -> None:
        now = declared(feature)
        if known["declared"] != now:
            changed = [name for name in now if now[name] != known["declared"].get(name)]
            raise InvalidInputError(
                f"{self.where}: the feature {feature.name!r} is not as in the previous graph",
                found=f"{changed[0]} {now[changed[0]]!r}",
                expected=f"{known['declared'].get(changed[0])!r}",
                remedy="Restore the feature, rename it, or ingest without --previous.",
            )

    @property
    def used(self) -> list[str]:
        """The columns of the table that are needed beside the keys."""
        names = [feature.column for feature in self.features]
        names += ([self.label] if self.label else []) + (self.split.columns if self.split else [])
        return list(dict.fromkeys([*names, *self.text]))

    @property
    def needs_key(self) -> bool:
        """Whether the part of a row follows from its key."""
        return self.split is not None and bool(self.split.shares)

    @property
    def chunk_rows(self) -> int:
        """Rows of a file, by the widest column."""
        return rows_of_chunk(8 * max(self.widths.values(), default=1))

    @property
    def fit_rows(self) -> int:
        """Rows that transforms are fitted to at a time: sums of floats, and so all bytes, depend on it."""
        rows = BLOCK
        while rows > 1 and rows * 8 * max(self.widths.values(), default=1) > FIT_BYTES:
            rows //= 2
        return rows

    def state(self) -> dict[str, Any]:
        """Return what was fitted and how, as JSON."""
        features = {
            feature.name: {"declared": declared(feature), "fitted": self.transforms[feature.name].state()}
            for feature in self.features
        }
        return {"features": features, **({"classes": self.classes} if self._classifies else {})}

    @property
    def _classifies(self) -> bool:
        return bool(self.label) and self.task == "classification"


def declared(feature: FeatureColumn) -> dict[str, Any]:
    """Return a feature as graph.yaml declares it, as JSON."""
    return {**vars(feature), "boundaries": list(feature.boundaries)}


@dataclass
class ColumnWriter:
    """Fits and writes the columns of a type.

    Attributes:
        columns: What becomes of them.
        buckets: The rows.
        writer: Takes the files.
        block_bytes: Values of a feature in memory at a time.
        problems: Findings are appended to it.
        locate: Returns sentences about the first rows in which a column is null.
        locate_ids: Returns sentences about the rows of some IDs.
    """

    columns: Columns
    buckets: Buckets
    writer: GraphWriter
    block_bytes: int
    problems: list[Problem]
    locate: Callable[[str], list[str]]
    locate_ids: Callable[[list[int]], list[str]]

    def __post_init__(self) -> None:
        self._nulls: dict[str, int] = {}
        self._overlaps = 0
        self._overlapping: list[int] = []
        self._seen: set[Any] = set()
        self._seen_in_training: set[Any] = set()

    def write(self) -> None:
        """Fit what is not fitted yet, and write all columns.

        Raises:
            InvalidInputError: A column does not fit its transform.

        Peak memory: two buckets of the columns, ``block_bytes`` for values, and what transforms keep.
        """
        self._fit()
        if any(problem.action == "fail" for problem in self.problems):
            return
        columns, chunk_rows = self.columns, self.columns.chunk_rows
        with ExitStack() as stack:
            files: dict[str, NpyFiles] = {}

            def append(name: str, rows: Array) -> None:
                if name not in files:
                    file = self.writer.feature_file(columns.type_name, name, chunk_rows, edges=columns.edges)
                    files[name] = stack.enter_context(file)  # type: ignore[assignment]
                files[name].append(rows)

            texts = {name: stack.enter_context(self._text_file(name)) for name in columns.text}
            begin = 0
            for block in self.buckets.pieces(self._needed(columns.used)):
                for feature in columns.features:
                    for rows in self._apply(feature, _plain(block.column(feature.column))):
                        append(feature.name, rows)
                for name, rows in self._labels_and_masks(block).items():
                    append(name, rows)
                for name, file in texts.items():
                    ids = pa.array(np.arange(begin, begin + len(block)))
                    file.append(pa.table({ORIG_ID: ids, name: block.column(name).cast(pa.string())}))
                begin += len(block)
        for name, npy in files.items():
            self.writer.add_feature(columns.type_name, name, npy, edges=columns.edges)
        for name, file in texts.items():
            self.writer.add_text(columns.type_name, name, file)

    def _apply(self, feature: FeatureColumn, column: pa.Array) -> Iterator[Array]:
        """Yield the rows of a feature, as many at a time as fit into memory as float64."""
        transform = self.columns.transforms[feature.name]
        rows = max(self.block_bytes // (8 * transform.row_numbers()), 1)
        for begin in range(0, len(column), rows):
            yield transform.apply(column.slice(begin, rows))

    def _text_file(self, name: str) -> Any:
        schema = pa.schema([(ORIG_ID, pa.int64()), (name, pa.string())])
        return self.writer.table_file("node_text", f"{self.columns.type_name}/{name}", schema)

    def _needed(self, names: Sequence[str]) -> list[str]:
        return list(dict.fromkeys([*names, *([KEY] if self.columns.needs_key else [])]))

    def _fit(self) -> None:
        """Read all rows once: count nulls, fit transforms, and look at labels and masks."""
        columns = self.columns
        unfitted = [f for f in columns.features if not columns.transforms[f.name].fitted]
        strict = [f for f in columns.features if f.missing is None]
        label = [columns.label] if columns.label else []
        split = columns.split.columns if columns.split else []
        names = [*(f.column for f in (*unfitted, *strict)), *label, *split]
        begin = 0
        for block in self.buckets.blocks(self._needed(names), columns.fit_rows) if names else ():
            masks = self._masks(block)
            training = masks["train"] if masks else np.ones(len(block), np.bool_)
            for column in {feature.column for feature in strict}:
                self._nulls[column] = self._nulls.get(column, 0) + block.column(column).null_count
            for feature in unfitted:
                rows = _plain(block.column(feature.column)).filter(pa.array(training)).drop_null()
                columns.transforms[feature.name].fit(rows)
            if label:
                self._look_at_labels(block, training)
            if masks:
                several = np.stack([*masks.values()]).sum(axis=0) > 1
                self._overlaps += int(several.sum())
                self._overlapping += (begin + np.flatnonzero(several)[:SHOWN]).tolist()
            begin += len(block)
        for feature in unfitted:
            columns.transforms[feature.name].finish()
        self._report_nulls()
        self._report_masks()
        if columns._classifies:
            self._report_classes()

    def _masks(self, block: pa.Table) -> dict[str, Mask]:
        """Return the rows of each part, if there is a split."""
        split = self.columns.split
        if split is None:
            return {}
        if split.shares:
            keys = _plain(block.column(KEY).cast(pa.string()))
            place = hashes_of(pc.fill_null(keys, "")) / 2.0**64
            place[~keys.is_valid().to_numpy(zero_copy_only=False)] = np.inf  # a node that an edge added
            ends = np.cumsum([0.0, *split.shares])
            return {part: (ends[i] <= place) & (place < ends[i + 1]) for i, part in enumerate(PARTS)}
        if split.masks:
            return {
                part: self._truth(block, split.masks[part])
                if part in split.masks
                else np.zeros(len(block), np.bool_)
                for part in PARTS
            }
        texts = texts_of(_plain(block.column(split.column)), f"{self.columns.where}: split")
        return {
            part: pc.is_in(texts, pa.array(split.values.get(part, ()), pa.string())).to_numpy(
                zero_copy_only=False
            )
            for part in PARTS
        }

    def _truth(self, block: pa.Table, name: str) -> Mask:
        column = _plain(block.column(name))
        if not (pa.types.is_boolean(column.type) or pa.types.is_integer(column.type)):
            raise InvalidInputError(
                f"{self.columns.where}: the mask {name!r} is not a column of booleans", found=str(column.type)
            )
        filled = pc.fill_null(column.cast(pa.bool_()), False)
        return np.asarray(filled.to_numpy(zero_copy_only=False), np.bool_)

    def _labels_and_masks(self, block: pa.Table) -> dict[str, Array]:
        found: dict[str, Array] = {MASKS[part]: rows for part, rows in self._masks(block).items()}
        if self.columns.label:
            column = _plain(block.column(self.columns.label))
            if self.columns.task == "regression":
                numbers = numbers_of(pc.fill_null(column.cast(pa.float64()), np.nan), self.columns.where)
                found[LABEL] = numbers.astype(np.float32)
            else:
                places = pc.index_in(_categories(column), pa.array(self.columns.classes))
                found[LABEL] = pc.fill_null(places, -1).to_numpy(zero_copy_only=False).astype(np.int64)
        return found

    def _look_at_labels(self, block: pa.Table, training: Mask) -> None:
        if not self.columns._classifies:
            return
        labels = _categories(_plain(block.column(self.columns.label)))
        self._seen.update(pc.unique(labels.drop_null()).to_pylist())
        self._seen_in_training.update(pc.unique(labels.filter(pa.array(training)).drop_null()).to_pylist())
        if len(self._seen) > MOST_CLASSES:
            raise InvalidInputError(
                f"{self.columns.where}: the label {self.columns.label!r} has too many classes",
                found=f"more than {MOST_CLASSES}",
                remedy="If it is a number to predict, set task: regression.",
            )

    def _report_nulls(self) -> None:
        for column, count in self._nulls.items():
            if not count:
                continue
            names = [repr(f.name) for f in self.columns.features if f.column == column]
            rows = self.locate(column) or ["nodes without a row in the table"]
            self.problems.append(
                Problem(
                    "missing_values",
                    self.columns.type_name,
                    f"{count_of(count, 'value')} of {column} missing in {self.columns.source.name}"
                    f" (feature {', '.join(names)} of {self.columns.type_name!r})",
                    count,
                    "fail",
                    rows,
                    "Correct the rows, or set 'missing' of the feature in graph.yaml.",
                )
            )

    def _report_masks(self) -> None:
        if self._overlaps:
            self.problems.append(
                Problem(
                    "overlapping_masks",
                    self.columns.type_name,
                    f"{count_of(self._overlaps, 'row')} of {self.columns.source.name}"
                    f" (nodes {self.columns.type_name!r}) in several of train, val and test",
                    self._overlaps,
                    self.columns.actions["overlapping_masks"],
                    self.locate_ids(self._overlapping[:SHOWN]),
                    "Correct the masks, or set on_defect: {overlapping_masks: warn}.",
                )
            )

    def _report_classes(self) -> None:
        new = sorted(self._seen - {*self.columns.classes})
        self.columns.classes += new
        lost = sorted(self._seen - self._seen_in_training)
        if lost and self.columns.split is not None:
            self.problems.append(
                Problem(
                    "missing_classes",
                    self.columns.type_name,
                    f"{len(lost)} of {len(self._seen)} classes of {self.columns.label}"
                    f" (nodes {self.columns.type_name!r}) have no training node",
                    len(lost),
                    self.columns.actions["missing_classes"],
                    [some_of([shown(one) for one in lost], 5)],
                    "Correct the split, or set on_defect: {missing_classes: warn}.",
                )
            )


def _categories(column: pa.Array) -> pa.Array:
    """Return labels as whole numbers or text."""
    if pa.types.is_integer(column.type) or pa.types.is_boolean(column.type):
        return column.cast(pa.int64())
    return texts_of(column, "label")


def _plain(column: pa.ChunkedArray) -> pa.Array:
    array = column.combine_chunks()
    return array if isinstance(array, pa.Array) else pa.concat_arrays(array.chunks)


def _width(source: ParquetTable, column: str) -> int:
    """Return how many numbers a value of a column has, from the first row that has one."""
    if not pa.types.is_list(source.schema.field(column).type):
        return 1
    for path in source.paths:
        with pq.ParquetFile(path, memory_map=True) as file:  # otherwise a whole row group is in memory
            for batch in file.iter_batches(FIRST_ROWS, columns=[column]):
                known = batch.column(0).drop_null()
                if len(known):
                    return max(len(known[0]), 1)
    return 1
