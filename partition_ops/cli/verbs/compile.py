"""``partition-ops compile``."""

from __future__ import annotations

import argparse
from typing import Any

from partition_ops.cli.console import Console
from partition_ops.cli.verb import Verb


def execute(arguments: argparse.Namespace, console: Console) -> Any:
    from partition_ops.jobs.compile_ahead import compile_loops

    seconds = compile_loops()
    console.line(f"The loops are compiled for this processor ({seconds:.0f} s)")
    return {"seconds": round(seconds, 3)}


VERB = Verb(
    description="""\
Compile the loops of the library for this processor, by running a job over a small random graph in a
temporary folder. The compiled code is kept in ~/.cache/partition-ops, in a folder for each version, or in the
folder that NUMBA_CACHE_DIR names. Without it, the first job compiles what it needs.""",
    execute=execute,
)
