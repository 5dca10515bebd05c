"""Memory limits."""

from __future__ import annotations

from pathlib import Path

import pytest

from partition_ops.system import memory


@pytest.mark.parametrize(
    ("own", "files", "limit"),
    [
        ("0::/\n", {"memory.max": "300"}, 300),
        ("0::/user/job\n", {"user/job/memory.max": "max", "user/memory.max": "200"}, 200),
        ("5:cpu:/\n4:memory:/job\n", {"memory/job/memory.limit_in_bytes": "100"}, 100),
        ("4:memory:/job\n", {"memory/memory.limit_in_bytes": "90", "cpu/job/memory.max": "1"}, 90),
    ],
)
def test_the_lowest_limit_of_the_cgroups_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own: str, files: dict[str, str], limit: int
) -> None:
    (tmp_path / "own").write_text(own)
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(memory, "CGROUPS", tmp_path)
    monkeypatch.setattr(memory, "OWN_CGROUPS", tmp_path / "own")
    assert memory.memory_limit() == limit
