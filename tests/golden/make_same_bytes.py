"""Calls of the command line, and ``same_bytes.json`` with the digests of the files that they write.

`tests/integration/test_same_bytes.py` compares the files with the digests. To renew the digests after an
intended change, run this in the root of the project:

    python -m tests.golden.make_same_bytes [CASE...]

Without CASE it renews all cases. If ParMETIS is not installed, the cases that need it keep their digests.

The cases use only the command line and the public formats, so that modules of the library may move.
"""

from __future__ import annotations

import ctypes.util
import hashlib
import importlib.metadata
import importlib.util
import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np

from partition_ops.cli import main
from partition_ops.storage.store import json_bytes
from tests.command_line import unbounded
from tests.golden.same_bytes_graphs import graphs, write_pm_dglpart_output

GOLDEN = Path(__file__).parent / "same_bytes.json"
PACKAGES = ("dgl", "numba", "numpy", "pyarrow", "pymetis", "torch")  # their versions may change the bytes
OUTPUT = ("assignment", "partitions", "idmap", "schema", "quality/report.json")

Document = dict[str, Any]
Step = str | Callable[[Path], object]


@dataclass(frozen=True)
class Case:
    """Calls of the command line, and the files whose digests are recorded.

    Attributes:
        steps: Command lines, or functions of the folder of the case. A word that begins with ``@`` is a path
            in that folder. If it is the name of a graph in `graphs`, the graph is written there first.
        outputs: Files and folders in that folder; every file in them has a digest.
        parmetis: Whether ParMETIS must be installed.
    """

    steps: tuple[Step, ...]
    outputs: tuple[str, ...] = tuple(f"out/{name}" for name in OUTPUT)
    parmetis: bool = False


def run(options: str, graph: str = "library") -> Case:
    """Return the case of one whole job."""
    return Case((f"run @{graph} @out {options}",))


def deal(name: str, num_parts: int) -> Callable[[Path], object]:
    """Return a step that writes the output of ``pm_dglpart``."""
    return lambda folder: write_pm_dglpart_output(folder / "text" / "prepare", name, num_parts)


def convert_text(graph: str, num_parts: int, weights: int, attributes: str = "", options: str = "") -> Case:
    """Return the case of ``convert-partition`` on the text files of a graph."""
    steps = (
        f"schema @{graph} --output @{graph}.json",
        f"prepare @{graph} --output @text --format parmetis {attributes}",
        deal(graph, num_parts),
        f"convert-partition --input-dir @text/prepare --graph-name {graph} --schema @{graph}.json"
        f" --num-parts {num_parts} --num-node-weights {weights} --output @dgl {options}",
    )
    outputs = (f"{graph}.json", f"dgl/{graph}.json", *(f"dgl/part{part}" for part in range(num_parts)))
    return Case(steps, outputs)


def save_embeddings(folder: Path) -> None:
    """Write one row for each paper and for each citation, to be restored."""
    np.save(folder / "papers.npy", np.arange(900, dtype=np.float32).reshape(300, 3))
    edges = json.loads((folder / "old/partitions/library.json").read_text())["edge_map"]
    rows = sum(end - begin for begin, end in edges["paper:cites:paper"])
    np.save(folder / "cites.npy", np.arange(rows))


FIRST = "run @library @old --num-parts 3"

CASES: dict[str, Case] = {
    "auto": run("--num-parts 4"),
    "auto of a graph with communities": run("--num-parts 4 --graph-formats csc", "large"),
    "auto, fast": run("--num-parts 3 --effort fast --balance-ntypes train_mask --num-trainers-per-machine 2"),
    "auto, best": run("--num-parts 3 --effort best --balance none", "large"),
    "two-level": run(
        "--num-parts 5 --engine two-level --balance edges --tolerance 1.1 --seed 5 --num-hops 2"
        " --graph-formats coo,csr,csc"
    ),
    "metis, vol": run(
        "--num-parts 4 --engine metis --objective vol --balance none --graph-formats csc --num-hops 0"
    ),
    "target shares, random": run("--num-parts 3 --target-shares 2,1,1 --engine random"),
    "parmetis": Case(
        ("run @library @out --num-parts 4 --engine parmetis --mpi-ranks 2 --seed 1",), parmetis=True
    ),
    "follows": Case((FIRST, "run @grown @out --previous @old --num-parts 3")),
    "follows two-level": Case(
        (
            f"{FIRST} --engine random",
            "run @grown @out --previous @old --num-parts 3 --engine two-level --drift 1.5",
        )
    ),
    "drop": run("--num-parts 3 --on-defect drop", "defects"),
    "all formats": Case(
        ("run @dtypes @out --num-parts 2 --formats dgl,graphbolt,pyg,graphstorm",),
        ("out/assignment", "out/partitions", "out/formats"),
    ),
    "idmap restore, apply, carry-over": Case(
        (
            "run @library @old --num-parts 3 --seed 1",
            "run @library @new --num-parts 4 --engine random",
            save_embeddings,
            "idmap restore @old --node-type paper --input @papers.npy --output @maps/restored.npy",
            "idmap restore @old --edge-type paper:cites:paper --input @cites.npy --output @maps/c.parquet",
            "idmap apply @old --node-type paper --input @papers.npy --output @maps/part{part}.npy",
            "idmap carry-over @old @new --output @maps/carried",
        ),
        ("maps",),
    ),
    "text, attributes": Case(
        ("prepare @dtypes --output @text --format parmetis --attributes all --weights one",),
        ("text/prepare",),
    ),
    "convert-partition, attributes": convert_text(
        "library",
        3,
        1,
        "--weights one --attributes feat --attributes year",
        "--node-attr-dtype float32 --edge-attr-dtype int64 --attribute-name attr",
    ),
}


# Fields that are not compared, by file name: the URI of the previous output, the digest of its manifest (the
# manifest holds the URI of its input), and messages. If such a field is not null, MASK replaces it before
# hashing; then the white space of the file is not compared either.
MASKED = {
    "migration.json": (("previous", "run"), ("previous", "manifest_sha256"), ("reason",)),
    "report.json": (("migration", "reason"), ("notes",)),
}
# Fields that newer versions add, by file name. They are removed before hashing.
ADDED_FIELDS = {"report.json": (("balance",), ("training", "cache"))}
MASK = "..."


def run_case(case: Case, folder: Path) -> Document:
    """Run a case in an empty folder, and return its entry for `GOLDEN`."""
    names = [name for name in graphs() if any(f"@{name}" in words(step) for step in case.steps)]
    for name in names:
        graphs()[name].write(folder / name)
    codes = [call(step, folder) if isinstance(step, str) else step(folder) for step in case.steps]
    return {
        "inputs": {name: digest_of_folder(folder / name) for name in names},
        "exit_codes": [code for code in codes if isinstance(code, int)],
        "files": {key: digest_of_file(folder / key) for key in sorted(keys(folder, case.outputs))},
    }


def words(step: Step) -> list[str]:
    return step.split() if isinstance(step, str) else []


def call(step: str, folder: Path) -> int:
    """Run a command line in this process, and return its exit code; with ``--memory`` as no bound."""
    arguments = [f"{folder}/{word[1:]}" if word.startswith("@") else word for word in words(step)]
    try:
        with unbounded():
            return main(arguments)
    except SystemExit as ended:
        return int(ended.code or 0)


def keys(folder: Path, outputs: tuple[str, ...]) -> Iterator[str]:
    for output in outputs:
        paths = [folder / output] if (folder / output).is_file() else (folder / output).rglob("*")
        yield from (path.relative_to(folder).as_posix() for path in paths if path.is_file())


def digest_of_file(path: Path) -> str:
    """Return the SHA-256 of a file, without the fields in `MASKED` and `ADDED_FIELDS`."""
    data = path.read_bytes()
    if path.name in MASKED:
        document = json.loads(data)
        if sum(_remove(document, field) for field in ADDED_FIELDS.get(path.name, ())):
            data = json_bytes(document)
        if sum(_mask(document, field) for field in MASKED[path.name]):
            data = json.dumps(document, indent=2).encode()
    return hashlib.sha256(data).hexdigest()


def _mask(document: Any, field: tuple[str, ...]) -> bool:
    *parents, last = field
    for name in parents:
        document = document.get(name, {})
    if document.get(last) is None:
        return False
    document[last] = MASK
    return True


def _remove(document: Any, field: tuple[str, ...]) -> bool:
    """Remove a field, and return whether it was there."""
    *parents, last = field
    for name in parents:
        document = document.get(name, {})
    return document.pop(last, None) is not None


def digest_of_folder(folder: Path) -> str:
    """Return one SHA-256 for the names and contents of all files of an input."""
    digest = hashlib.sha256()
    for key in sorted(keys(folder.parent, (folder.name,))):
        digest.update(f"{key} {digest_of_file(folder.parent / key)}\n".encode())
    return digest.hexdigest()


@contextmanager
def quiet() -> Iterator[None]:
    """Discard the output of calls."""
    with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
        yield


def read_golden() -> Document:
    document: Document = json.loads(GOLDEN.read_text()) if GOLDEN.exists() else {}
    return document


def versions() -> dict[str, str]:
    return {name: importlib.metadata.version(name).partition("+")[0] for name in PACKAGES}


def missing_for_parmetis() -> str | None:
    """Say what the engine parmetis lacks on this machine, or return None."""
    if ctypes.util.find_library("parmetis") is None:
        return "ParMETIS is not installed"
    if not (shutil.which("mpirun.openmpi") or shutil.which("mpirun")):
        return "mpirun is not installed"
    return None if importlib.util.find_spec("mpi4py") else "mpi4py is not installed"


def renew(names: list[str]) -> None:
    """Run the named cases, or all cases, and write their digests to `GOLDEN`."""
    golden = read_golden()
    cases = {name: record for name, record in golden.get("cases", {}).items() if name in CASES}
    for name in names or CASES:
        if CASES[name].parmetis and missing_for_parmetis():
            print(f"kept the digests of {name!r}: {missing_for_parmetis()}")
            continue
        with tempfile.TemporaryDirectory() as folder, quiet():
            cases[name] = run_case(CASES[name], Path(folder))
        if any(cases[name]["exit_codes"]):
            raise SystemExit(f"{name}: exit codes {cases[name]['exit_codes']}")
    document = {"versions": versions(), "cases": {name: cases[name] for name in CASES if name in cases}}
    GOLDEN.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    renew(sys.argv[1:])
