"""What becomes of the columns of a type: its transforms, classes and sizes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from partition_ops.chunked.graph_writer import rows_of_chunk
from partition_ops.errors import InvalidInputError
from partition_ops.stages.ingest.graph_types import PARTS, EdgeTable, FeatureColumn, TypeTable
from partition_ops.stages.ingest.tables import ParquetTable
from partition_ops.stages.ingest.transforms import TRANSFORMS, Transform
from partition_ops.stages.ingest.values import vectors_of

BLOCK = 1 << 16  # rows that transforms are fitted to at a time, fewer if they are wide
FIT_BYTES = 16 << 20  # of such a block as float64
MASKS = {part: f"{part}_mask" for part in PARTS}
LABEL = "label"
FIRST_ROWS = 128
LATER = {"columns", "separator", "truncate", "bounds"}  # not in ingest.json of older graphs


class Columns:
    """What becomes of the columns of one node type or edge type.

    Args:
        spec: The type in ``graph.yaml``.
        source: The table.
        fitted: What was fitted for the previous graph, as `state` returned it.
    """

    def __init__(self, spec: TypeTable, source: ParquetTable, fitted: Mapping[str, Any]) -> None:
        self.spec, self.source = spec, source
        self.widths = {one.name: _width(source, one) for one in spec.features}
        self.transforms: dict[str, Transform] = {}
        for feature in spec.features:
            where = f"{spec.about}: feature {feature.name!r}"
            transform = TRANSFORMS[feature.transform](feature, where, self.widths[feature.name])
            known = fitted.get("features", {}).get(feature.name)
            if known is not None:
                self._check_unchanged(feature, known)
                transform.state = known["fitted"]
            self.transforms[feature.name] = transform
        for name in spec.text:
            if pa.types.is_nested(source.schema.field(name).type):
                raise InvalidInputError(
                    f"{spec.about}: the text {name!r} is no text",
                    found=str(source.schema.field(name).type),
                    expected="text, numbers, booleans, dates or times",
                    remedy="Take it as a feature, or write it as text in a query.",
                )
        self.classes: list[Any] = list(fitted.get("classes", []))
        self.labels = {
            name: Columns(one, source, fitted.get("labels", {}).get(name, {}))
            for name, one in spec.labels.items()
        }
        names = [feature.name for feature in spec.features]
        taken = ([LABEL] if spec.label else []) + (list(MASKS.values()) if spec.split else [])
        for name, one in spec.labels.items():
            taken += [f"{LABEL}_{name}", *(f"{mask}_{name}" for mask in MASKS.values() if one.split)]
        twice = next((name for name in taken if name in names), None)
        if twice is not None:
            raise InvalidInputError(
                f"{spec.about}: the feature {twice!r} has the name of the label or of a mask",
                remedy="Rename the feature in graph.yaml.",
            )

    def _check_unchanged(self, feature: FeatureColumn, known: Mapping[str, Any]) -> None:
        now = declared(feature)
        if known["declared"] != now:
            changed = [name for name in now if now[name] != known["declared"].get(name)]
            raise InvalidInputError(
                f"{self.spec.about}: the feature {feature.name!r} is not as in the previous graph",
                found=f"{changed[0]} {now[changed[0]]!r}",
                expected=f"{known['declared'].get(changed[0])!r}",
                remedy="Restore the feature, rename it, or ingest without --previous.",
            )

    @property
    def needs_key(self) -> bool:
        """Whether the part of a row follows from its key, or that of an edge from its ends."""
        has_key = isinstance(self.spec, EdgeTable) and bool(self.spec.key)
        own = self.spec.split is not None and bool(self.spec.split.shares) and not has_key
        return own or any(one.needs_key for one in self.labels.values())

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
            feature.name: {"declared": declared(feature), "fitted": self.transforms[feature.name].state}
            for feature in self.spec.features
        }
        labels = {name: {"classes": one.classes} for name, one in self.labels.items() if one.spec.classifies}
        return {
            "features": features,
            **({"classes": self.classes} if self.spec.classifies else {}),
            **({"labels": labels} if labels else {}),
        }


def declared(feature: FeatureColumn) -> dict[str, Any]:
    """Return a feature as graph.yaml declares it, as JSON."""
    lists = {name: list(value) for name, value in vars(feature).items() if isinstance(value, tuple)}
    found = {**vars(feature), **lists}
    return {name: value for name, value in found.items() if value or name not in LATER}


def _width(source: ParquetTable, feature: FeatureColumn) -> int:
    """Return how many numbers a value of a feature's column has, from the first row that has one."""
    column = feature.column
    if feature.columns:
        return len(feature.columns)
    kind = source.schema.field(column).type
    text = feature.separator and pa.types.is_string(kind)
    if feature.transform == "multi-hot" or not (text or pa.types.is_list(kind)):
        return 1
    for path in source.paths:
        with pq.ParquetFile(path, memory_map=True) as file:  # otherwise a whole row group is in memory
            for batch in file.iter_batches(FIRST_ROWS, columns=[column]):
                known = batch.column(0).drop_null()
                known = vectors_of(known, feature.separator).drop_null() if text else known
                if len(known):
                    return max(len(known[0]), 1)
    return 1
