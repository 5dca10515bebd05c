"""The folder of the engines, from outside."""

from __future__ import annotations

import subprocess
import sys


def test_listing_the_engines_imports_nothing_heavy() -> None:
    code = (
        "import sys; from partition_ops.stages.partition.engines import engine_names;"
        " print(*engine_names()); sys.exit('numpy' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["auto", "two-level", "metis", "parmetis", "random"]
