"""Readers of artifacts for ``verify``."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from partition_ops.errors import InvalidInputError
from partition_ops.storage import open_store
from partition_ops.verification.artifact_readers import load_array


@pytest.mark.parametrize("mmap", [True, False])
def test_a_damaged_array_is_named(mmap: bool, tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    np.save(path, np.arange(10))
    whole, output = path.read_bytes(), open_store(str(tmp_path))
    assert load_array(output, "a.npy", mmap=mmap).tolist() == [*range(10)]
    for damaged in (b"", whole[:40], b"\x92" + whole[1:], whole[:12] + b"\x9b" + whole[13:]):
        path.write_bytes(damaged)
        with pytest.raises(InvalidInputError, match=r"a\.npy") as raised:
            load_array(output, "a.npy", mmap=mmap)
        assert "pickle" not in str(raised.value)
