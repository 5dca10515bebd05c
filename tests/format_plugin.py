"""The output format that CONTRIBUTING.md adds, installed into a folder that a test puts on the path."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from partition_ops.formats import format as registry
from partition_ops.formats.format import ENTRY_POINTS
from tests.contributing import ROOT, code_block

MODULE, NAME = "numpy_format", "numpy-test"
LINES = 80  # a small format stays small


def install(folder: Path) -> Path:
    """Write the module, and the metadata that an installer would write, into a folder; return the folder."""
    code = code_block(f"{MODULE}.py")
    assert len(code.splitlines()) < LINES
    (folder / f"{MODULE}.py").write_text(code)
    metadata = folder / f"{MODULE}-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {MODULE}\nVersion: 1.0\n")
    entry = f"{NAME} = {MODULE}:NumpyFormat"
    assert entry in (ROOT / "CONTRIBUTING.md").read_text().replace('"', "")
    (metadata / "entry_points.txt").write_text(f"[{ENTRY_POINTS}]\n{entry}\n")
    return folder


@contextmanager
def on_the_path(folder: Path) -> Iterator[None]:
    """Put an installed format on the path of this process, and remove it afterwards."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        yield
    sys.modules.pop(MODULE, None)
    registry._load.cache_clear()
