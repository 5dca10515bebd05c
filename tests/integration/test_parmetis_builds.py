"""Other builds of ParMETIS than Debian's: PM4GNN, 64-bit integers, and the original ``pm_dglpart``.

The tests with real builds need ``PARMETIS_PREFIX``, a folder where the user has installed, with 64-bit
integers, ``lib/libmetis.so``, ``lib/libparmetis.so`` and ``bin/pm_dglpart`` (dgl branch of ParMETIS), and
``lib/libpm4gnn.so`` (PM4GNN). Without it they are skipped. The other tests compile small libraries of our
own, which have the interfaces of those.
"""

from __future__ import annotations

import ctypes.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from partition_ops.artifacts import layout
from partition_ops.artifacts.assignment import read_assignment
from partition_ops.chunked.metadata import load_metadata
from partition_ops.cli import main
from partition_ops.errors import EngineError
from partition_ops.stages.partition.mpi.mpirun import mpi_environment, mpirun_command
from partition_ops.stages.partition.mpi.options import LibraryOptions, MpiOptions
from partition_ops.stages.partition.mpi.parmetis_library import Library
from partition_ops.storage import open_store
from partition_ops.system.dgl_import import import_dgl
from tests.graphs import library
from tests.integration.test_convert_partition import check
from tests.mpi import needs_parmetis
from tests.parmetis import ParmetisOutput, schema

PREFIX = Path(os.environ.get("PARMETIS_PREFIX", "/nowhere"))
COMPILER = shutil.which("cc") or shutil.which("gcc")
PAPERS = 400
MANY_PAPERS = 9000  # ParMETIS gathers graphs of fewer than 10,000 nodes

needs_compiler = pytest.mark.skipif(COMPILER is None, reason="needs a C compiler")
needs_build = pytest.mark.skipif(
    not (PREFIX / "lib" / "libparmetis.so").exists(),
    reason="needs PARMETIS_PREFIX, a folder with 64-bit builds",
)

OPTIONS = """
void METIS_SetDefaultOptions(idx_t *options) { for (int i = 0; i < 40; i++) options[i] = -1; }
"""
PM4GNN = (
    "typedef KIND idx_t;\n"
    + OPTIONS
    + """
int PM4GNN_PartKway(idx_t *vtxdist, idx_t *xadj, idx_t *adjncy, idx_t *vwgt, idx_t *adjwgt, idx_t *wgtflag,
                    idx_t *ncon, idx_t *nparts, float *tpwgts, float *ubvec, idx_t *options, idx_t *edgecut,
                    idx_t *part, void *comm) {
  if (adjwgt || *wgtflag != 2 || *ncon != 2 || *nparts != 3 || !comm) return -1;
  if (tpwgts[0] < 0.33f || ubvec[1] < 1.02f || options[9] != 8) return -2;
  for (int i = 0; i < 40; i++) if (i != 9 && options[i] != -1) return -3;
  for (idx_t i = 0; i < vtxdist[1]; i++) part[i] = (vwgt[2 * i] + adjncy[xadj[i]]) % 3;
  *edgecut = 1;
  return 1;
}
"""
)
OTHER = "typedef int idx_t;\n" + OPTIONS
MISSING_SYMBOL = """
extern void errexit(char *message);
int ParMETIS_V3_PartKway(void) { errexit("x"); return 1; }
"""
CALL = """
import sys
import numpy as np
from mpi4py import MPI
from partition_ops.stages.partition.mpi.parmetis_library import Library, Slice, Target
from partition_ops.stages.partition.mpi.options import LibraryOptions
library = Library(LibraryOptions(path=sys.argv[1], index_bits=64))
nodes = 6
weights = np.arange(2 * nodes).reshape(-1, 2)
piece = Slice(np.array([0, nodes]), np.arange(nodes + 1), np.roll(np.arange(nodes), 1), weights)
target = Target(3, np.full(2, 1.03), np.full(3, 1 / 3), 7)
print(library.partition(piece, target, MPI.COMM_WORLD).tolist())
"""


def compiled(source: str, folder: Path) -> str:
    """Return the path of a shared library."""
    path = folder / "library.so"
    (folder / "library.c").write_text(source)
    subprocess.run([str(COMPILER), "-shared", "-fPIC", "-o", path, folder / "library.c"], check=True)
    return str(path)


@needs_parmetis
@needs_compiler
def test_pm4gnn_is_called_with_its_own_arguments(tmp_path: Path) -> None:
    path = compiled(PM4GNN.replace("KIND", "long long"), tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", CALL, path], env=mpi_environment(), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    expected = [(2 * i + (i - 1) % 6) % 3 for i in range(6)]  # first weight of the node, and its neighbour
    assert json.loads(done.stdout) == expected


@needs_compiler
@pytest.mark.parametrize(("kind", "bits", "asked"), [("long long", 64, 32), ("int", 32, 64)])
def test_another_width_of_integers_is_refused(
    kind: str, bits: int, asked: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = compiled(PM4GNN.replace("KIND", kind), tmp_path)
    with pytest.raises(EngineError) as raised:
        Library(LibraryOptions(path=path, index_bits=asked))
    message = str(raised.value)
    assert f"an idx_t of {bits} bits" in message
    assert f"Use --parmetis-index-bits {bits}" in message
    assert Library(LibraryOptions(path=path, index_bits=bits)).name == "PM4GNN_PartKway"
    if bits == 64:  # the system's library, with the default options
        monkeypatch.setattr(ctypes.util, "find_library", lambda name: path)
        with pytest.raises(EngineError, match=r"Name its path .*-bits 64"):
            Library(LibraryOptions())


@needs_compiler
def test_a_library_without_the_functions_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="is not ParMETIS") as raised:
        Library(LibraryOptions(path=compiled(OTHER, tmp_path)))
    assert "PM4GNN_PartKway or ParMETIS_V3_PartKway" in str(raised.value)


@needs_compiler
def test_a_library_that_lacks_gklib_is_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = compiled(MISSING_SYMBOL, tmp_path)
    load = "import ctypes, sys; from partition_ops.stages.partition.mpi.parmetis_library import Library\n"
    load += "from partition_ops.stages.partition.mpi.options import LibraryOptions\n"
    load += "try: Library(LibraryOptions(path=sys.argv[1]))\nexcept Exception as error: print(error)"
    done = subprocess.run(
        [sys.executable, "-c", load, path],
        env={**os.environ, "LD_BIND_NOW": "1"},  # as a library that is linked with -z now
        capture_output=True,
        text=True,
    )
    assert "undefined symbol: errexit" in done.stdout, done.stderr
    assert "GKlib" in done.stdout


@needs_compiler
def test_the_library_that_is_missing_is_named(tmp_path: Path) -> None:
    other = tmp_path / "libneeded.so"
    (tmp_path / "needed.c").write_text("int needed(void) { return 1; }")
    compiled(MISSING_SYMBOL.replace("errexit", "unused"), tmp_path)
    build = [str(COMPILER), "-shared", "-fPIC", "-o"]
    subprocess.run([*build, other, tmp_path / "needed.c"], check=True)
    library = tmp_path / "libparmetis.so"
    source = tmp_path / "library.c"
    subprocess.run([*build, library, source, "-Wl,--no-as-needed", other], check=True)
    other.unlink()
    with pytest.raises(EngineError, match="needs another library") as raised:
        Library(LibraryOptions(path=str(library)))
    assert "libneeded.so" in str(raised.value.found) and "LD_LIBRARY_PATH" in str(raised.value)


@needs_compiler
def test_the_integers_of_a_preloaded_metis_count(tmp_path: Path) -> None:
    """ParMETIS calls the METIS that is preloaded, whatever it was linked with."""
    without = PM4GNN.replace("KIND", "int").replace("METIS_SetDefaultOptions", "other_name")
    path = compiled(without, tmp_path)
    (tmp_path / "metis").mkdir()
    metis = compiled("typedef long long idx_t;\n" + OPTIONS, tmp_path / "metis")
    load = "import sys; from partition_ops.stages.partition.mpi.parmetis_library import Library\n"
    load += "from partition_ops.stages.partition.mpi.options import LibraryOptions\n"
    load += "try: print(Library(LibraryOptions(path=sys.argv[1], index_bits=int(sys.argv[2]))).name)\n"
    load += "except Exception as error: print(error)"
    said = [
        subprocess.run(
            [sys.executable, "-c", load, path, bits],
            env={**os.environ, "LD_PRELOAD": metis},
            capture_output=True,
            text=True,
        ).stdout
        for bits in ("32", "64")
    ]
    assert "an idx_t of 64 bits" in said[0] and "PM4GNN_PartKway" in said[1]


def test_a_file_that_is_no_library_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text.so").write_text("text")
    with pytest.raises(EngineError, match="cannot be loaded"):
        Library(LibraryOptions(path=str(tmp_path / "text.so")))


def test_a_program_with_other_arguments_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    program = tmp_path / "pm_dglpart"
    program.write_bytes(b"\x7fELF" + b"Usage: %s <fstem> <nparts> <nodes_file> <edges_file>")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["pm-dglpart", "small", "2", "--use-program"]) == 1
    assert "takes other arguments" in capsys.readouterr().err


@pytest.fixture
def real(monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LD_LIBRARY_PATH", str(PREFIX / "lib"))
    monkeypatch.setenv("PATH", str(PREFIX / "bin"), prepend=os.pathsep)
    return PREFIX


@needs_build
@needs_parmetis
@pytest.mark.parametrize("papers", [PAPERS, MANY_PAPERS])
@pytest.mark.parametrize("name", ["libparmetis", "libpm4gnn"])
def test_a_64_bit_library_partitions(name: str, papers: int, real: Path, tmp_path: Path) -> None:
    path = real / "lib" / f"{name}.so"
    if not path.exists():
        pytest.skip(f"there is no {path}")
    graph, out = library(papers=papers).write(tmp_path / "in"), tmp_path / "out"
    options = ["--engine", "parmetis", "--mpi-ranks", "2", "--parmetis-library", str(path)]
    run = ["run", str(graph), str(out), "--num-parts", "3", *options]
    assert main(run) == 1  # 32 bits
    assert main([*run, "--parmetis-index-bits", "64"]) == 0
    assert main(["verify", str(graph), str(out)]) == 0
    with open_store(str(graph)) as source, open_store(str(out / layout.ASSIGNMENT)) as folder:
        metadata = load_metadata(source)
        parts = read_assignment(folder, metadata).parts
    begin = metadata.node_offsets[metadata.node_type_id("paper")]
    sizes = np.bincount(parts[begin : begin + papers], minlength=3) * 3 / papers
    assert sizes.max() < 1.15
    report = json.loads((out / layout.QUALITY_REPORT).read_text())
    assert report["edge_cut"]["fraction"] < 0.64  # 0.667 by chance


@needs_build
@needs_parmetis
def test_the_original_program_goes_round(real: Path, tmp_path: Path) -> None:
    graph = library(papers=PAPERS)
    graph.write(tmp_path / "in")
    assert (
        main(["prepare", str(tmp_path / "in"), "--output", str(tmp_path / "text"), "--format", "parmetis"])
        == 0
    )
    (tmp_path / "schema.json").write_text(json.dumps(schema(graph)))
    text = tmp_path / "text" / "prepare"
    done = subprocess.run(
        [
            *mpirun_command(MpiOptions(ranks=2)),
            *(sys.executable, "-m", "partition_ops.cli", "pm-dglpart", "small", "2", "--use-program"),
        ],
        env={**mpi_environment(), "PYTHONPATH": str(Path.cwd())},
        cwd=text,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert sorted(path.name for path in text.glob("p*-small_nodes.txt")) == [
        f"p00{part}-small_nodes.txt" for part in range(4)
    ]
    call = ["convert-partition", "--input-dir", str(text), "--graph-name", "small", "--num-parts", "4"]
    call += ["--schema", str(tmp_path / "schema.json"), "--num-node-weights", "3"]
    assert main([*call, "--output", str(tmp_path / "dgl")]) == 0
    new_ids, parts = given_order(text, graph, 4)
    check(ParmetisOutput(graph, [[]] * 4, [[]] * 4, [], new_ids, parts), tmp_path / "dgl" / "small.json")
    assert import_dgl().distributed.load_partition(str(tmp_path / "dgl" / "small.json"), 3)[0].num_nodes()


def given_order(text: Path, graph: object, num_parts: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the new ID and the partition of every node, as the program wrote them."""
    counts = list(graph.nodes.values())  # type: ignore[attr-defined]
    begins = np.cumsum([0, *counts])
    new_ids, parts = np.full(begins[-1], -1), np.full(begins[-1], -1)
    for part in range(num_parts):
        for line in (text / f"p{part:03d}-small_nodes.txt").read_text().splitlines():
            new, kind, *_, orig = map(int, line.split())
            new_ids[begins[kind] + orig], parts[begins[kind] + orig] = new, part
    return new_ids, parts
