"""The entrypoint of the image: containers that share /scratch keep their files."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from local_stack.folders import PROJECT

KEEP = 'touch "$TMPDIR/file"; echo "$TMPDIR"; read -r line'


def start(scratch: Path) -> tuple[subprocess.Popen[str], Path]:
    """Start a container's process, which ends with its standard input; return its folder too."""
    process = subprocess.Popen(
        ["sh", PROJECT / "deploy/entrypoint", "sh", "-c", KEEP],
        env={"PATH": os.environ["PATH"], "SCRATCH": str(scratch)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def test_only_files_of_containers_that_have_ended_are_removed(tmp_path: Path) -> None:
    first, folder = start(tmp_path)
    second, another = start(tmp_path)
    assert (folder / "file").exists() and folder != another
    first.kill()
    first.wait()
    third, _ = start(tmp_path)
    assert not folder.exists() and (another / "file").exists()
    for process in (second, third):
        process.communicate("")
