"""Files of a graph on a full disk."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Never

import numpy as np
import pytest

from partition_ops.chunked.graph_writer import GraphWriter, NpyFiles
from partition_ops.errors import StorageError
from partition_ops.storage import open_store


@pytest.mark.parametrize(
    ("step", "rows"), [("_begin", 0), ("_begin", 3), ("_append", 3), ("_end", 0), ("_end", 3), ("_end", 5)]
)
def test_a_full_disk_is_named_and_leaves_no_file(
    step: str, rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> Never:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(NpyFiles, step, fail)
    writer = GraphWriter(open_store(str(tmp_path)), "g", lambda _: None)
    full = pytest.raises(StorageError, match=f"no space left in {tmp_path}")
    with full, writer.feature_file("user", "age", 4) as files:
        files.append(np.ones((rows, 2), np.float32))
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
