"""Do what CONTRIBUTING.md says: its code blocks, and a copy of the library to which they can be added."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDERS = ("partition_ops", "plugins", "dags", "schemas", "docs", "tests", "local_stack")


def code_block(path: str) -> str:
    """Return the code block of CONTRIBUTING.md whose first line is the comment ``# path``."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    blocks = re.findall(r"^```python\n(.*?)^```$", text, re.S | re.M)
    (block,) = (block for block in blocks if block.startswith(f"# {path}\n"))
    return str(block)


class Checkout:
    """A copy of what a contributor changes, used in processes of its own.

    Attributes:
        root: Folder with copies of `FOLDERS`.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        for name in FOLDERS:
            shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("*.pyc"))
        shutil.copy(ROOT / "pyproject.toml", root)

    def add(self, path: str) -> Path:
        """Write the file that CONTRIBUTING.md shows for a path, which is new."""
        file = self.root / path
        assert not file.exists(), path
        file.parent.mkdir(exist_ok=True)
        file.write_text(code_block(path))
        return file

    def add_option(self, path: str, cls: str) -> None:
        """Add the field that CONTRIBUTING.md shows for a path to a dataclass there, as its first."""
        file = self.root / path
        field = textwrap.indent(code_block(path), "    ")
        before, found, rest = file.read_text().partition(f"class {cls}(")
        docstring, end, fields = rest.partition('"""\n\n')
        assert found and end, cls
        file.write_text(f"{before}{found}{docstring}{end}{field}{fields}")

    def run(self, *arguments: str, code: int = 0) -> str:
        """Run ``partition-ops``; return what it prints on both streams."""
        return self._call(["-m", "partition_ops.cli", *arguments], code)

    def python(self, program: str) -> str:
        """Run a program; return what it prints."""
        return self._call(["-c", program], 0)

    def make_reference(self) -> None:
        """Write the tables in the docs and the schema of settings, as ``make reference`` does."""
        self._call(["docs/tables.py"], 0)

    def test(self, path: str) -> str:
        """Run the tests of a file; return what pytest prints."""
        return self._call(["-m", "pytest", "-q", "-p", "no:cacheprovider", path], 0)

    def _call(self, command: list[str], code: int) -> str:
        environment = {**os.environ, "PYTHONPATH": f"{self.root}:{self.root / 'plugins'}"}
        done = subprocess.run(
            [sys.executable, *command], cwd=self.root, env=environment, capture_output=True, text=True
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr
