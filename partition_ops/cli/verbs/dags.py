"""``partition-ops dags`` and ``partition-ops examples``."""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import Any

from partition_ops.cli.console import Console
from partition_ops.cli.verb import Verb
from partition_ops.storage.local_store import LocalStore


def add_arguments(what: str, parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--to",
        metavar="DIR",
        type=Path,
        required=True,
        help=f"Folder that takes {what}; it is created. Files that are there already must not differ.",
    )


def execute(kind: str, arguments: argparse.Namespace, console: Console) -> Any:
    from partition_ops.artifacts.write_access import check_root
    from partition_ops.system.shipped_files import copy_shipped

    check_root(kind, LocalStore(arguments.to))
    written = copy_shipped(kind, arguments.to)
    console.line(f"{len(written)} files in {arguments.to}")
    return {"files": [str(path) for path in written]}


VERB = Verb(
    description="""\
Write the files of the DAGs into a folder, such as Airflow's folder of DAGs. Operators, hook and the page of
graphs are in the package: install the extra airflow where DAGs are parsed and where tasks run.""",
    add_arguments=partial(add_arguments, "the files of the DAGs"),
    execute=partial(execute, "dags"),
)
EXAMPLES = Verb(
    description="""\
Write the package 'examples' into a folder. In that folder, python -m examples.python_environment my-graph
writes the Python environment as a graph, which partition-ops run takes as its input.""",
    add_arguments=partial(add_arguments, "the folder examples"),
    execute=partial(execute, "examples"),
)
