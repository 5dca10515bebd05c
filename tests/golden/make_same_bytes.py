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


def follow(options: str, graph: str = "grown", before: str = "", old: str = "library") -> Case:
    """Return the case of an incremental run."""
    first = f"run @{old} @old --num-parts 3 {before}"
    return Case((first, f"run @{graph} @out --previous @old {options}"))


def stage_by_stage(options: str) -> Case:
    """Return the case of a job whose stages are called one by one."""
    stages = (
        "validate @library --output @out --no-data-docs",
        "schema @library --output @out/",
        "prepare @library --output @out",
        f"partition @library --output @out {options}",
        "convert @library --output @out",
        "idmap @library --output @out",
        "quality @library --output @out",
        "publish @library --output @out",
    )
    return Case(stages)


def prepare_text(options: str, graph: str) -> Case:
    """Return the case of the text files for ParMETIS."""
    return Case((f"prepare @{graph} --output @text --format parmetis {options}",), ("text/prepare",))


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


def edit_assignment(folder: Path) -> None:
    """Write a changed copy of the assignment, in DGL's text format only."""
    shutil.copytree(folder / "out" / "assignment", folder / "edited")
    for path in folder.glob("edited/*.npy"):
        path.unlink()
    text = folder / "edited" / "paper.txt"
    lines = text.read_text().splitlines()
    text.write_text("".join(f"{line}\n" for line in lines[50:] + lines[:50]))


TWICE = "run @library @old --num-parts 3 --seed 1"

CASES: dict[str, Case] = {
    # engines and balance
    "auto": run("--num-parts 4"),
    "little memory": run("--num-parts 4 --memory 1M"),
    "auto of a graph with communities": run("--num-parts 4 --graph-formats csc", "large"),
    "auto of a grid": run("--num-parts 3 --balance none", "grid"),
    "auto of a hub": run("--num-parts 3 --balance edges", "hub"),
    "auto, vol": run("--num-parts 3 --objective vol --engine auto --num-hops 2"),
    "two-level": run(
        "--num-parts 5 --engine two-level --balance edges --tolerance 1.1 --seed 5 --num-hops 2"
        " --graph-formats coo,csr,csc"
    ),
    "two-level, many parts": run("--num-parts 17 --engine two-level --seed 2 --balance edges", "large"),
    "two-level, train mask": run("--num-parts 3 --engine two-level --balance-ntypes train_mask"),
    "metis": run("--num-parts 4 --engine metis --seed 3"),
    "metis, vol": run(
        "--num-parts 4 --engine metis --objective vol --balance none --graph-formats csc --num-hops 0"
    ),
    "metis, train mask": run(
        "--num-parts 3 --engine metis --balance-ntypes train_mask --balance edges --tolerance 1.3"
    ),
    "random": run("--num-parts 4 --engine random --seed 7 --num-hops 2 --graph-formats csr"),
    "random, hops 0": run("--num-parts 2 --engine random --num-hops 0 --graph-formats coo,csr,csc"),
    "target shares": run("--num-parts 3 --target-shares 3,2,1 --engine two-level"),
    "target shares, metis": run("--num-parts 3 --target-shares 3,2,1 --engine metis"),
    "target shares, random": run("--num-parts 3 --target-shares 2,1,1 --engine random"),
    "trainers": run("--num-parts 3 --num-trainers-per-machine 2 --num-hops 2"),
    "trainers, random": run("--num-parts 2 --num-trainers-per-machine 3 --engine random"),
    "parmetis": Case(
        ("run @library @out --num-parts 4 --engine parmetis --mpi-ranks 2 --seed 1",), parmetis=True
    ),
    "parmetis, follows": Case(
        (
            "run @library @old --num-parts 3 --engine random",
            "run @grown @out --num-parts 3 --engine parmetis --mpi-ranks 2 --previous @old --drift 9",
        ),
        parmetis=True,
    ),
    # graphs that have grown
    "follows": follow("--num-parts 3"),
    "follows, moving is free": follow("--num-parts 3 --migration-price 0 --compare-full --drift 2"),
    "follows two-level": follow("--num-parts 3 --engine two-level --drift 1.5", before="--engine random"),
    "follows metis": follow("--num-parts 3 --engine metis --balance edges", before="--balance edges"),
    "follows metis, drift": follow(
        "--num-parts 3 --engine metis --drift 3 --seed 2", before="--engine metis"
    ),
    "follows random": follow("--num-parts 3 --engine random --seed 4", before="--engine random"),
    "follows trainers": follow(
        "--num-parts 3 --num-trainers-per-machine 2 --drift 2", before="--num-trainers-per-machine 2"
    ),
    "follows, more edges only": follow("--num-parts 3 --drift 2", "more_citations"),
    "follows whole communities": follow("--num-parts 3", "more_rings", old="rings"),
    "follows, a type is gone": follow("--num-parts 3", "shrunk"),
    "follows, other parts": follow("--num-parts 4"),
    "follows a following run": Case(
        (
            "run @library @first --num-parts 3",
            "run @more_citations @old --num-parts 3 --previous @first",
            "run @grown @out --num-parts 3 --previous @old --migration-price 3",
        )
    ),
    "follows, stage by stage": Case(
        (
            TWICE,
            "validate @grown --output @out --no-data-docs",
            "schema @grown --output @out/",
            "prepare @grown --output @out",
            "partition @grown --output @out --num-parts 3 --previous @old --seed 1",
            "convert @grown --output @out --num-hops 2 --graph-formats csc,coo",
            "idmap export @grown --output @out --vectors --part-maps",
            "quality @grown --output @out --previous @old",
            "publish @grown --output @out",
        )
    ),
    # defects
    "drop": run("--num-parts 3 --on-defect drop", "defects"),
    "exclude": run("--num-parts 3 --on-defect exclude", "defects"),
    "warn": run("--num-parts 3 --on-defect warn", "defects"),
    "drop duplicates, exclude self-loops": run(
        "--num-parts 2 --on-defect duplicate_edges=drop --on-defect self_loop_edges=exclude --num-hops 2",
        "defects",
    ),
    "warn of duplicates, drop self-loops": run(
        "--num-parts 2 --on-defect duplicate_edges=warn --on-defect self_loop_edges=drop --engine random"
        " --num-trainers-per-machine 2",
        "defects",
    ),
    "drop, with vectors and part maps": Case(
        (
            "run @defects @out --num-parts 3 --on-defect drop --num-hops 0",
            "idmap export @defects --output @out --vectors --part-maps",
        )
    ),
    # formats and shapes of the input
    "dtypes": run("--num-parts 2 --seed 1", "dtypes"),
    "dtypes, many parts": run("--num-parts 5 --engine random --num-trainers-per-machine 2", "dtypes"),
    "delimiters": run("--num-parts 3 --engine metis", "delimiters"),
    "mixed formats": run("--num-parts 4 --on-defect warn", "mixed"),
    "homogeneous": run("--num-parts 3 --graph-formats coo,csc --num-hops 2", "social"),
    "empty types": run("--num-parts 3", "empty_types"),
    "empty types, edges": run(
        "--num-parts 4 --engine metis --balance edges --num-hops 2 --graph-formats csc", "empty_types"
    ),
    "empty types, random": run("--num-parts 5 --engine random --num-hops 0", "empty_types"),
    "odd names": run("--num-parts 3 --engine random", "odd_names"),
    "no edges": run("--num-parts 3 --graph-formats coo,csr,csc", "no_edges"),
    "one part": run("--num-parts 1 --num-hops 2"),
    "a part for each node": run("--num-parts 12 --graph-formats csr", "odd_names"),
    "graph name": run("--num-parts 2 --graph-name other_1", "social"),
    # verbs
    "stage by stage": stage_by_stage("--num-parts 4"),
    "vectors and part maps": Case(
        (
            "run @library @out --num-parts 3 --engine metis",
            "idmap export @library --output @out --vectors --part-maps",
            "publish @library --output @out",
        )
    ),
    "idmap restore, apply, carry-over": Case(
        (
            TWICE,
            "run @library @new --num-parts 4 --engine random",
            save_embeddings,
            "idmap restore @old --node-type paper --input @papers.npy --output @maps/restored.npy",
            "idmap restore @old --edge-type paper:cites:paper --input @cites.npy --output @maps/c.parquet",
            "idmap apply @old --node-type paper --input @papers.npy --output @maps/part{part}.npy",
            "idmap carry-over @old @new --output @maps/carried",
        ),
        ("maps",),
    ),
    "idmap restore with own IDs": Case(
        (
            "run @mixed @out --num-parts 3 --engine random",
            lambda folder: np.save(folder / "rows.npy", np.arange(200).reshape(100, 2)),
            "idmap restore @out --node-type n --input @rows.npy --output @rows.parquet --ids-from @mixed",
        ),
        ("rows.parquet",),
    ),
    "convert an edited assignment": Case(
        (
            "validate @library --output @out --no-data-docs",
            "prepare @library --output @out",
            "partition @library --output @out --num-parts 3",
            edit_assignment,
            "convert @library --output @new --assignment @edited --num-hops 2",
            "idmap @library --output @new",
            "quality @library --output @new",
        ),
        ("new/assignment", "new/partitions", "new/idmap", "new/quality/report.json"),
    ),
    "schema": Case(
        (
            "schema @library --output @schemas/library.json",
            "schema @library --output @schemas/canonical.json --canonical",
            "schema @empty_types --output @schemas/empty_types.json --graph-name other",
            "schema @odd_names --output @schemas/stage/",
        ),
        (
            *(f"schemas/{name}.json" for name in ("library", "canonical", "empty_types")),
            "schemas/stage/schema",
        ),
    ),
    # ParMETIS's text
    "text": prepare_text("", "library"),
    "text, attributes": prepare_text("--attributes all --weights one", "dtypes"),
    "text, degree": prepare_text("--weights degree --attributes w", "defects"),
    "text, column": prepare_text("--weights column=label --attributes year --attributes grid", "library"),
    "text, mask": prepare_text("--weights mask=train_mask --graph-name other", "library"),
    "text of empty types": prepare_text("--attributes f", "empty_types"),
    "convert-partition": convert_text("library", 4, 3),
    "convert-partition, attributes": convert_text(
        "library",
        3,
        1,
        "--weights one --attributes feat --attributes year",
        "--node-attr-dtype float32 --edge-attr-dtype int64 --attribute-name attr",
    ),
    "convert-partition of defects": convert_text("defects", 2, 2),
    "convert-partition of a homogeneous graph": convert_text("social", 3, 1),
    "convert from text": Case(
        (
            "validate @library --output @out --no-data-docs",
            "prepare @library --output @text --format parmetis",
            deal("library", 4),
            "convert @library --output @out --assignment @text/prepare --parmetis-parts 4"
            " --num-node-weights 3",
            "idmap @library --output @out",
            "quality @library --output @out",
        )
    ),
}

# Calls whose exit codes are in `GOLDEN`; their messages may change. `prepare_calls` writes their inputs.
# @done is a finished output, @damaged has one wrong bit, @empty is an empty folder, @nothing does not exist.
TWO = "--num-parts 2"
CALLS = (
    "",
    "--version",
    "run --help",
    "nonsense",
    "run @library",
    "run @library @x",
    "run @library @x --num-parts 0",
    "run @library @x --num-parts two",
    "run @library @x --num-parts 1000",
    f"run @library @x {TWO} --no-such-option",
    f"run @library @x {TWO} --engine nonsense",
    f"run @library @x {TWO} --engine random --objective vol",
    f"run @library @x {TWO} --engine random --balance-ntypes train_mask",
    f"run @library @x {TWO} --engine two-level --objective vol",
    f"run @library @x {TWO} --balance nonsense",
    f"run @library @x {TWO} --balance-ntypes nonsense",
    f"run @library @x {TWO} --balance-ntypes feat",
    f"run @library @x {TWO} --target-shares 1,1,1",
    f"run @library @x {TWO} --target-shares 1,0",
    f"run @library @x {TWO} --tolerance 0.5",
    f"run @library @x {TWO} --seed -1",
    f"run @library @x {TWO} --num-hops -1",
    f"run @library @x {TWO} --graph-formats coo,nonsense",
    f"run @library @x {TWO} --num-trainers-per-machine 0",
    f"run @library @x {TWO} --on-defect nonsense=drop",
    f"run @library @x {TWO} --on-defect nonfinite_values=drop",
    f"run @library @x {TWO} --memory nonsense",
    f"run @library @x {TWO} --graph-name a/b",
    f"run @library @x {TWO} --migration-price 0",
    f"run @library @x {TWO} --max-moved 0.1",
    f"run @library @x {TWO} --previous @nothing",
    f"run @library @x {TWO} --previous @x",
    f"run @library @gate {TWO} --max-edge-cut 0",
    f"run @library @gate {TWO} --max-imbalance 0.5",
    f"run @nothing @x {TWO}",
    f"run @defects @x {TWO}",
    f"run @no_json @x {TWO}",
    f"run @no_file @x {TWO}",
    f"run @out_of_range @x {TWO}",
    f"run @wrong_count @x {TWO}",
    "validate @defects --no-data-docs",
    "validate @defects --no-data-docs --on-defect warn",
    "validate @dtypes --no-data-docs",
    "validate @dtypes --no-data-docs --on-defect nonfinite_values=fail",
    "schema @library",
    "schema @nothing --output @x/",
    "prepare @library --output @x --weights one",
    "prepare @library --output @x --format parmetis --weights nonsense",
    "prepare @library --output @x --format parmetis --weights column=nonsense",
    "prepare @library --output @x --format parmetis --attributes nonsense",
    f"partition @library --output @empty {TWO} --engine metis",
    "convert @library --output @empty",
    "convert @library --output @empty --assignment @nothing",
    "idmap export @library --output @empty",
    "quality @library --output @empty",
    "publish @library --output @empty",
    "verify @library @done",
    "verify @library @damaged",
    "verify @defects @done",
    "verify @library @nothing",
    "changes @library @done",
    "changes @grown @done",
    "changes @library @nothing",
    "fetch @done --part 0 1 --to @fetched",
    "fetch @done --part 2 --to @fetched",
    "fetch @damaged --part 0 1 --to @fetched_damaged",
    "fetch @nothing --part 0 --to @fetched",
    "idmap restore @done --node-type nonsense --input @rows.npy --output @x.npy",
    "idmap restore @done --node-type paper --input @rows.npy --output @x.npy",
    "idmap restore @done --node-type paper --input @nothing.npy --output @x.npy",
    "idmap carry-over @done @nothing --output @x",
    "convert-partition --input-dir @empty --graph-name library --schema @nothing --num-parts 2"
    " --num-node-weights 3 --output @x",
    "convert-partition --input-dir @empty --graph-name library --schema @done/schema/library.json"
    " --num-parts 2 --num-node-weights 3 --output @x",
    "retain @done --keep 1",
    "retain @done --keep -1",
)


def prepare_calls(folder: Path) -> None:
    """Write the inputs and outputs that `CALLS` name."""
    for name in ("library", "defects", "dtypes", "grown"):
        graphs()[name](folder / name)
    for name in ("no_json", "no_file", "out_of_range", "wrong_count"):
        graphs()["delimiters"](folder / name)
    (folder / "no_json" / "metadata.json").write_text("{")
    (folder / "no_file" / "edges" / "1-0.csv").unlink()
    edges = folder / "out_of_range" / "edges" / "0-0.csv"
    edges.write_text(edges.read_text().replace("\n", "0000\n", 1))
    edges = folder / "wrong_count" / "edges" / "0-0.csv"
    edges.write_text(edges.read_text() + "0 1\n")
    (folder / "empty").mkdir()
    np.save(folder / "rows.npy", np.zeros((7, 2)))
    call(f"run @library @done {TWO} --engine random", folder)
    shutil.copytree(folder / "done", folder / "damaged")
    damaged = folder / "damaged" / "partitions" / "part1" / "graph.dgl"
    data = bytearray(damaged.read_bytes())
    data[len(data) // 2] ^= 1
    damaged.write_bytes(data)


# Fields that are not compared, by file name: the URI of the previous output, the digest of its manifest (the
# manifest holds the URI of its input), and messages. If such a field is not null, MASK replaces it before
# hashing; then the white space of the file is not compared either.
MASKED = {
    "migration.json": (("previous", "run"), ("previous", "manifest_sha256"), ("reason",)),
    "report.json": (("migration", "reason"), ("notes",)),
}
# Fields that newer versions add, by file name. They are removed before hashing.
ADDED_FIELDS = {"report.json": ("balance",)}
MASK = "..."


def run_case(case: Case, folder: Path) -> Document:
    """Run a case in an empty folder, and return its entry for `GOLDEN`."""
    names = [name for name in graphs() if any(f"@{name}" in words(step) for step in case.steps)]
    for name in names:
        graphs()[name](folder / name)
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
        added = [name for name in ADDED_FIELDS.get(path.name, ()) if name in document]
        if added:
            data = json_bytes({name: document[name] for name in document if name not in added})
            document = json.loads(data)
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
    """Run the named cases, or all cases and `CALLS`, and write their digests and exit codes to `GOLDEN`."""
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
    calls = golden.get("calls", {})
    if not names:
        with tempfile.TemporaryDirectory() as folder, quiet():
            prepare_calls(Path(folder))
            calls = {words: call(words, Path(folder)) for words in CALLS}
    document = {
        "versions": versions(),
        "calls": calls,
        "cases": {name: cases[name] for name in CASES if name in cases},
    }
    GOLDEN.write_text(json.dumps(document, indent=1) + "\n")


if __name__ == "__main__":
    renew(sys.argv[1:])
