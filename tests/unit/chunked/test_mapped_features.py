"""Chunks of features that stay mapped between partitions."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from partition_ops.chunked import feature_reader
from partition_ops.chunked.feature_reader import feature_readers
from partition_ops.chunked.metadata import load_metadata
from partition_ops.storage import open_store
from tests.graphs import Edges, SmallGraph, Values

ROWS = 10


@pytest.mark.parametrize("most", [0, 1, 64])
def test_few_chunks_of_all_features_stay_mapped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """A stream opens a chunk that is not kept once more; every stream has the same rows."""
    values = {name: np.arange(ROWS, dtype=np.float32) * factor for factor, name in enumerate("abc", 1)}
    ring = Edges(np.arange(ROWS), (np.arange(ROWS) + 1) % ROWS)
    some = [Values("n", name, one) for name, one in values.items()]
    source = open_store(str(SmallGraph({"n": ROWS}, {"n:to:n": ring}, some).write(tmp_path)))
    monkeypatch.setattr(feature_reader, "MOST_KEPT", most)
    readers = feature_readers(source, load_metadata(source))
    layouts = {name: readers[f"n/{name}"].layout for name in values}  # reads headers
    chunks = sum(len(layout.rows_per_chunk) for layout in layouts.values())
    opened, read = [], feature_reader.read_numpy

    def watched(path: Path, where: str) -> feature_reader.Values:
        opened.append(path)
        return read(path, where)

    monkeypatch.setattr(feature_reader, "read_numpy", watched)
    for _ in range(3):
        for name, one in values.items():
            np.testing.assert_array_equal(readers[f"n/{name}"].take(np.arange(ROWS)), one)
    assert len(opened) == 3 * chunks - 2 * min(most, chunks)
