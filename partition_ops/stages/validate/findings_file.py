"""Findings between tasks: `FileFindings` as JSON and an array, and `Overlaps` with degrees likewise."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import numpy.typing as npt

from partition_ops.chunked.duplicate_search import Overlaps, Repeated
from partition_ops.chunked.edges import EdgeChunk
from partition_ops.chunked.feature_reader import ChunkLayout
from partition_ops.stages.validate.degrees import DegreeFigures
from partition_ops.stages.validate.file_scan import FileFindings, ascending_ids
from partition_ops.stages.validate.graph_facts import EdgeFile, FeatureFile

Ids = npt.NDArray[np.int64]
Saved = tuple[dict[str, Any], Ids]  # a JSON document, and numbers that it counts


def save_findings(found: FileFindings) -> Saved:
    """Return findings as JSON, and the positions in them end to end, (n,) int64.

    The order of everything depends on the files alone, not on the threads that have read them.
    """
    positions = [
        (check, type_id, ids)
        for check, types in sorted(found.positions.items())
        for type_id, ids in sorted(types.items())
    ]
    document = {
        "defects": [
            [defect.check, defect.name, defect.count, defect.examples] for defect in found.defects.all()
        ],
        "edge_files": [
            [file.chunk.edge_type_id, file.chunk.index, file.chunk.key, file.rows, file.error]
            for file in sorted(found.edge_files, key=lambda file: (file.chunk.edge_type_id, file.chunk.index))
        ],
        "features": {
            name: [[file.index, file.key, _save_layout(file.layout), file.error] for file in files]
            for name, files in sorted(found.features.items())
        },
        "files": sorted(found.files, key=lambda entry: str(entry["path"])),
        "positions": [[check, type_id, len(ids)] for check, type_id, ids in positions],
    }
    return document, np.concatenate([np.empty(0, np.int64), *(ids for _, _, ids in positions)])


def load_findings(saved: Iterable[Saved]) -> FileFindings:
    """Return the findings of several tasks as one.

    Peak memory: 16 bytes for each position.
    """
    found = FileFindings()
    blocks: dict[str, dict[int, list[Ids]]] = {}
    for document, numbers in saved:
        for check, name, count, examples in document["defects"]:
            found.defects.add(check, name, count, examples)
        for type_id, index, key, rows, error in document["edge_files"]:
            found.edge_files.append(EdgeFile(EdgeChunk(type_id, index, key), rows, error))
        for name, files in document["features"].items():
            found.features.setdefault(name, []).extend(
                FeatureFile(index, key, _load_layout(layout), error) for index, key, layout, error in files
            )
        found.files += document["files"]
        at = 0
        for check, type_id, count in document["positions"]:
            blocks.setdefault(check, {}).setdefault(type_id, []).append(numbers[at : at + count])
            at += count
    found.positions = {
        check: {type_id: ascending_ids(ids) for type_id, ids in types.items()}
        for check, types in blocks.items()
    }
    return found


def _save_layout(layout: ChunkLayout | None) -> list[Any] | None:
    if layout is None:
        return None
    return [repr(np.lib.format.dtype_to_descr(layout.dtype)), list(layout.shape), layout.rows]


def _load_layout(saved: Sequence[Any] | None) -> ChunkLayout | None:
    if saved is None:
        return None
    description, shape, rows = saved
    dtype = np.lib.format.descr_to_dtype(ast.literal_eval(description))
    return ChunkLayout(dtype, tuple(shape), rows)


def save_range(overlaps: Overlaps, degrees: Sequence[DegreeFigures]) -> Saved:
    """Return what was found in a range as JSON, and the places of duplicates end to end, (n,) int64."""
    duplicates = overlaps.duplicates.items()
    document = {
        "duplicates": [
            [type_id, len(repeated.places), repeated.keys.tolist()] for type_id, repeated in duplicates
        ],
        "parallel": overlaps.parallel,
        "reversed": overlaps.reversed,
        "degrees": [asdict(one) for one in degrees],
    }
    return document, np.concatenate([np.empty(0, np.int64), *(one.places for _, one in duplicates)])


def load_range(document: Mapping[str, Any], numbers: Ids) -> tuple[Overlaps, list[DegreeFigures]]:
    """Return what `save_range` has saved."""
    duplicates, at = {}, 0
    for type_id, count, keys in document["duplicates"]:
        duplicates[type_id] = Repeated(numbers[at : at + count], np.array(keys, np.int64))
        at += count
    overlaps = Overlaps(duplicates, document["parallel"], document["reversed"])
    return overlaps, [DegreeFigures(**one) for one in document["degrees"]]
