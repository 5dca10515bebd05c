"""Files that end a library's process or that it does not check, and libraries that are missing."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import partition_ops
from partition_ops.artifacts.layout import MANIFEST
from partition_ops.cli.dispatch import _refusal
from partition_ops.errors import InvalidInputError
from partition_ops.storage.store import sha256_of
from partition_ops.system.dgl_import import import_dgl
from tests.graphs import library

OPTIONS: dict[str, Any] = {"num_parts": 2, "engine": "random", "ignore_estimate": True}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("libraries")
    library().write(folder / "in")
    partition_ops.run(folder / "in", folder / "out", formats=("dgl", "pyg"), **OPTIONS)
    return folder


def test_a_graph_that_ends_dgl_is_rejected(tmp_path: Path) -> None:
    """DGL aborts the process, and the lock would stay."""
    dgl: Any = import_dgl()
    graph = dgl.graph(([0, 1], [1, 2]))
    graph.ndata["x"] = torch.arange(3.0)
    path, out = tmp_path / "g.bin", tmp_path / "out"
    dgl.save_graphs(str(path), [graph])
    data = bytearray(path.read_bytes())
    data[31] = 255  # of a count in the header
    path.write_bytes(bytes(data))
    with pytest.raises(InvalidInputError) as rejected:
        partition_ops.run(path, out, **OPTIONS)
    assert str(rejected.value.__cause__).endswith(f"ended with {-signal.SIGABRT}")
    assert not (out / "ingest" / "lock.json").exists()


def test_verify_finds_a_flipped_byte_in_a_file_of_torch(finished: Path) -> None:
    """The manifest is mended, and torch maps files without a look at their checksums."""
    path = next((finished / "out/formats/pyg").rglob("part_0/graph.pt"))
    before, manifest = path.read_bytes(), (finished / "out" / MANIFEST).read_bytes()
    try:
        data = bytearray(before)
        data[before.index(b"byteorder") + 200] ^= 1
        path.write_bytes(bytes(data))
        document = json.loads(manifest)
        key = path.relative_to(finished / "out").as_posix()
        for entry in document["artifacts"]:
            if entry["key"] == key:
                entry["sha256"] = sha256_of(path)
        (finished / "out" / MANIFEST).write_text(json.dumps(document))
        failed = partition_ops.verify(finished / "in", finished / "out").failed
        assert any("CRC" in check.detail for check in failed)
    finally:
        path.write_bytes(before)
        (finished / "out" / MANIFEST).write_bytes(manifest)


def test_verify_without_dgl_and_torch_says_what_it_could_not_check(finished: Path) -> None:
    code = (
        "import sys; sys.modules['dgl'] = sys.modules['torch'] = None; from partition_ops.cli import main; "
    )
    code += "sys.exit(main(sys.argv[1:]))"
    words = ["verify", str(finished / "in"), str(finished / "out")]
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    for check in ("partition-book", "dgl-load"):
        (line,) = (line for line in done.stdout.splitlines() if check in line)
        assert line.startswith("--  ") and "pip install 'partition-ops[dgl]'" in line
    assert "2 could not run" in done.stdout.splitlines()[-1]
    assert "FAIL" not in done.stdout


def test_a_full_disk_names_the_temporary_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    error = _refusal(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
    assert str(tmp_path) in str(error.found) and "TMPDIR" in str(error)
