"""The DAG file is quick to read, and imports nothing heavy."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

DAG_FILE = Path(__file__).parents[2] / "dags" / "partition_graph.py"


HEAVY = {"torch", "dgl", "pandas", "numpy", "pyarrow", "boto3", "matplotlib", "numba", "great_expectations"}


DECLARATIONS = re.compile(
    r"partition_ops(\.errors|\.(artifacts|formats|jobs|options)(\.(layout|stage|format|options))?|\.(options|formats)\.\w+|\.system(\.plugins|\.extras)?"
    r"|\.traffic(\.options)?"
    r"|\.stages(\.\w+(\.options|\.engines?(\.\w+)?|\.multilevel(\.tuning)?"
    r"|\.mpi(\.options)?|\.checks?(\.\w+)?)?)?)?"
)


READ_IT = f"""
import json, runpy, sys, time
import airflow.sdk
before, began = set(sys.modules), time.process_time()
runpy.run_path({str(DAG_FILE)!r})
print(json.dumps([time.process_time() - began, sorted(set(sys.modules)), sorted(set(sys.modules) - before)]))
"""


def test_reads_quickly_and_imports_nothing_heavy() -> None:
    command = [sys.executable, "-c", READ_IT]
    answer = subprocess.run(command, env=dict(os.environ), capture_output=True, text=True, check=True)
    seconds, modules, added = json.loads(answer.stdout.splitlines()[-1])
    assert not HEAVY & set(modules)
    ours = [name for name in added if name.split(".")[0] == "partition_ops"]
    assert [name for name in ours if not DECLARATIONS.fullmatch(name)] == []
    assert "graph_partitioning.operators.publish" in added
    assert seconds < 1
