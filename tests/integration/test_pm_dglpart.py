"""Our pm_dglpart with real ParMETIS under real mpirun: nothing lost, nothing twice, and DGL loads it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from partition_ops.cli import main
from partition_ops.errors import InvalidInputError
from partition_ops.formats.parmetis.convert_partition import convert_parmetis
from partition_ops.formats.parmetis.options import ConvertPartitionConfig
from partition_ops.formats.parmetis.text_table import TextTable
from partition_ops.stages.partition.mpi.mpirun import mpi_environment, mpirun_command
from partition_ops.stages.partition.mpi.options import MpiOptions
from partition_ops.stages.prepare.options import PrepareConfig
from partition_ops.stages.prepare.prepare import prepare_graph
from partition_ops.storage import open_store
from partition_ops.system.dgl_import import import_dgl
from tests.graphs import SHAPES, SmallGraph, library, social
from tests.integration.test_convert_partition import check
from tests.mpi import needs_parmetis
from tests.parmetis import ParmetisOutput, attribute_table, schema

GRAPHS = {
    "heterogeneous": library(papers=300),
    "homogeneous": social(people=500),
    "tiny": library(papers=5),
    **{name: SHAPES[name] for name in ("one node", "no edges at all", "a type without nodes first")},
}
RANKS = 4
# ranks and partitions for each, in an order in which neighbours share the four ranks
CASES = [(1, 1), (3, 2), (2, 1), (2, 4), (4, 1), (4, 2), (1, 3)]
FEATURES = [(1, 1), (2, 2)]
WITH_FEATURES = ("heterogeneous", "homogeneous")


def mpirun(ranks: int, *arguments: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*mpirun_command(MpiOptions(ranks=ranks)), sys.executable, *map(str, arguments)],
        env={**mpi_environment(), "PYTHONPATH": str(Path.cwd())},
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=600,
    )


def prepared(
    graph: SmallGraph, folder: Path, *, attributes: bool = False, features: tuple[str, ...] = ()
) -> Path:
    """The three text files of a graph."""
    source = open_store(str(graph.write(folder / "in")))
    prepare_graph(PrepareConfig(format="parmetis", attributes=features), source, open_store(str(folder)))
    text = folder / "prepare"
    if attributes:
        nodes = (text / "small_nodes.txt").read_text().splitlines()
        rows = [f"{line} {old} {old + 0.25}\n" for old, line in enumerate(nodes)]
        (text / "small_nodes.txt").write_text("".join(rows))
        for name in ("small_edges.txt", "small_removed_edges.txt"):
            firsts = [
                (line, int(line.split()[2]) * 10 + int(line.split()[3]))
                for line in (text / name).read_text().splitlines()
            ]
            (text / name).write_text("".join(f"{line} {first} {first + 1}\n" for line, first in firsts))
    return text


def read(graph: SmallGraph, folder: Path, num_parts: int) -> ParmetisOutput:
    """Check the files as text: rows are kept, IDs contiguous by partition and type, and counts right."""
    total = sum(graph.nodes.values())
    nodes = (folder / "small_nodes.txt").read_text().splitlines()
    begins = dict(zip(range(len(graph.nodes)), np.cumsum([0, *graph.nodes.values()]).tolist(), strict=False))
    new_ids, parts = np.full(total, -1), np.full(total, -1)
    expected = 0
    for part in range(num_parts):
        rows = [line.split(" ", 1) for line in (folder / f"p{part}-small_nodes.txt").read_text().splitlines()]
        assert [int(new) for new, _ in rows] == list(range(expected, expected + len(rows)))
        expected += len(rows)
        fields = [rest.split() for _, rest in rows]
        types = [int(row[0]) for row in fields]
        assert types == sorted(types)
        old = [begins[kind] + int(row[1 + len(graph.nodes)]) for kind, row in zip(types, fields, strict=True)]
        assert [nodes[node] for node in old] == [rest for _, rest in rows]
        new_ids[old] = [int(new) for new, _ in rows]
        parts[old] = part
    assert expected == total and (new_ids >= 0).all()
    _check_edges(folder, num_parts, new_ids, parts)
    return ParmetisOutput(graph, [[]] * num_parts, [[]] * num_parts, [], new_ids, parts)


def _check_edges(folder: Path, num_parts: int, new_ids: np.ndarray, parts: np.ndarray) -> None:
    kept = []
    for part in range(num_parts):
        lines = (folder / f"p{part}-small_edges.txt").read_text().splitlines()
        for line in lines:
            src, dst, rest = line.split(" ", 2)
            old_src, old_dst = (int(end) for end in rest.split()[:2])
            assert (new_ids[old_src], new_ids[old_dst]) == (int(src), int(dst))
            assert parts[old_dst] == part
            kept.append(rest)
        stats = (folder / f"p{part}-small_stats.txt").read_text().split()
        assert stats[:2] == [str((parts == part).sum()), str(len(lines))]
    assert sorted(kept) == sorted((folder / "small_edges.txt").read_text().splitlines())


@pytest.fixture(scope="module")
def partitioned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folders of `folder_of`, partitioned by ranks that were started once: each imports for a second."""
    root = tmp_path_factory.mktemp("pm_dglpart")
    texts = {}
    for name, graph in GRAPHS.items():
        for attributes in (False, True):
            texts[attributes, name] = prepared(graph, root / f"{name} {attributes}", attributes=attributes)
    for name in WITH_FEATURES:
        texts["features", name] = prepared(GRAPHS[name], root / f"{name} features", features=("all",))
    guide = prepared(library(papers=2000), folder_of(root, "guide", "", 4, 2).parent)
    jobs = []
    for ranks, per_rank in CASES:
        folders = {folder_of(root, "round", name, ranks, per_rank): name for name in GRAPHS}
        for folder, name in folders.items():
            shutil.copytree(texts[has_attributes(ranks, per_rank), name], folder)
        jobs.append((ranks, per_rank, [*folders, guide] if (ranks, per_rank) == (4, 2) else [*folders]))
    for ranks, per_rank in FEATURES:
        folders = {folder_of(root, "features", name, ranks, per_rank): name for name in WITH_FEATURES}
        for folder, name in folders.items():
            shutil.copytree(texts["features", name], folder)
        jobs.append((ranks, per_rank, [*folders]))
    done = mpirun(RANKS, "-m", "tests.mpi_dglpart", json.dumps(turns(jobs)))
    assert done.returncode == 0, done.stdout + done.stderr
    return root


def folder_of(root: Path, what: str, name: str, ranks: int, per_rank: int) -> Path:
    return root / what / f"{ranks} {per_rank}" / (name or "-") / "prepare"


def has_attributes(ranks: int, per_rank: int) -> bool:
    return (ranks + per_rank) % 2 == 0


def turns(jobs: list[tuple[int, int, list[Path]]]) -> list[list[tuple[int, list[tuple[str, int]]]]]:
    """Jobs side by side, as many as there are ranks for, and then the next ones."""
    found: list[list[tuple[int, list[tuple[str, int]]]]] = [[]]
    for ranks, per_rank, folders in jobs:
        if sum(taken for taken, _ in found[-1]) + ranks > RANKS:
            found.append([])
        found[-1].append((ranks, [(str(folder), per_rank) for folder in folders]))
    return found


@needs_parmetis
@pytest.mark.parametrize(("ranks", "per_rank"), CASES)
def test_prepared_text_goes_round(ranks: int, per_rank: int, partitioned: Path) -> None:
    attributes = has_attributes(ranks, per_rank)
    folders = {name: folder_of(partitioned, "round", name, ranks, per_rank) for name in GRAPHS}
    for name, graph in GRAPHS.items():
        output = read(graph, folders[name], ranks * per_rank)
        if name in ("heterogeneous", "homogeneous"):
            assert set(output.parts.tolist()) == set(range(ranks * per_rank))
        config = ConvertPartitionConfig(
            graph_name="small",
            num_parts=ranks * per_rank,
            num_node_weights=len(graph.nodes),
            node_attr_dtype="float32" if attributes else None,
            edge_attr_dtype="int16" if attributes else None,
        )
        out = folders[name].parent / "dgl"
        convert_parmetis(config, open_store(str(folders[name])), schema(graph), open_store(str(out)))
        check(output, out / "small.json", attributes=attributes and name == "heterogeneous")


@needs_parmetis
@pytest.mark.parametrize("name", WITH_FEATURES)
@pytest.mark.parametrize(("ranks", "per_rank"), FEATURES)
def test_features_go_round_as_attributes(
    name: str, ranks: int, per_rank: int, partitioned: Path, tmp_path: Path
) -> None:
    graph, num_parts = GRAPHS[name], ranks * per_rank
    of_nodes, of_edges = (("feat", "label", "train_mask", "grid"), ("year",))
    if name == "homogeneous":
        of_nodes, of_edges = ("feat",), ("weight",)
    config = ConvertPartitionConfig(
        graph_name="small",
        num_parts=num_parts,
        num_node_weights=len(graph.nodes),
        node_attr_dtype="float64",
        edge_attr_dtype="float64",
    )
    text = open_store(str(folder_of(partitioned, "features", name, ranks, per_rank)))
    out = tmp_path / "dgl"
    convert_parmetis(config, text, schema(graph), open_store(str(out)))
    kinds = {kind: len(edges.src) for kind, edges in graph.edges.items()}
    nodes = attribute_table(graph.node_values, graph.nodes, of_nodes)
    edges = attribute_table(graph.edge_values, kinds, of_edges)
    load = import_dgl().data.utils.load_tensors
    seen = {kind: [] for kind in (*nodes, *edges)}
    for part in range(num_parts):
        for expected, ids, features in ((nodes, "orig_nids", "node_feat"), (edges, "orig_eids", "edge_feat")):
            found = load(str(out / f"part{part}" / f"{features}.dgl"))
            for kind, orig in load(str(out / f"part{part}" / f"{ids}.dgl")).items():
                np.testing.assert_array_equal(found[f"{kind}/feat"].numpy(), expected[kind][orig.numpy()])
                seen[kind] += orig.tolist()
    for kind, orig in seen.items():
        assert sorted(orig) == list(range({**graph.nodes, **kinds}[kind]))
    assert load_partitions(out / "small.json", num_parts) == sum(kinds.values())


def load_partitions(config: Path, num_parts: int) -> int:
    """The number of edges in partitions that DGL loads."""
    load = import_dgl().distributed.load_partition
    return sum(load(str(config), part)[0].num_edges() for part in range(num_parts))


@needs_parmetis
def test_the_command_of_the_guide_balances_every_type_and_repeats(partitioned: Path, tmp_path: Path) -> None:
    graph = library(papers=2000)
    folder = prepared(graph, tmp_path)
    done = mpirun(4, "-m", "partition_ops.cli", "pm-dglpart", "small", "2", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("num parts 8") == 1
    found, again = (
        {path.name: path.read_text() for path in where.glob("p*-small_*.txt")}
        for where in (folder, folder_of(partitioned, "guide", "", 4, 2))
    )
    assert len(found) == 24
    assert found == again
    parts = read(graph, folder, 8).parts
    sizes = np.bincount(parts[1000:3000], minlength=8) / 2000 * 8
    assert sizes.max() < 1.15


def _line(name: str, row: int, text: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        path = folder / f"small_{name}.txt"
        lines = path.read_text().splitlines()
        lines[row] = text
        path.write_text("\n".join(lines) + "\n")

    return change


MALFORMED = {
    "a node with too few fields": (_line("nodes", 4, "0 1"), "small_nodes.txt, line 5"),
    "a node type that is no number": (_line("nodes", 4, "x 1 0 0 4"), "small_nodes.txt, line 5"),
    "a negative weight": (_line("nodes", 4, "0 -1 0 0 4"), "small_nodes.txt, line 5"),
    "types that are mixed": (_line("nodes", 4, "2 0 0 1 4"), "small_nodes.txt"),
    "a weight that is too large": (_line("nodes", 4, f"0 {2**70} 0 0 4"), "small_nodes.txt, line 5"),
    "an edge with too few fields": (_line("edges", 6, "0 1 2"), "small_edges.txt, line 7"),
    "an edge with a word": (_line("edges", 6, "0 one 2 0"), "small_edges.txt, line 7"),
    "a source that is no node": (_line("edges", 6, "99999 1 2 0"), "small_edges.txt, line 7"),
    "a negative destination": (_line("edges", 6, "0 -1 2 0"), "small_edges.txt, line 7"),
    "too many edges counted": (_line("stats", 0, "95 99999 3"), "small_stats|small_nodes|small_edges"),
    "two statistics": (_line("stats", 0, "95 17"), "small_stats.txt, line 1"),
    "no statistics": (lambda folder: (folder / "small_stats.txt").unlink(), "no file .*small_stats"),
    "no nodes": (lambda folder: (folder / "small_nodes.txt").unlink(), "no file .*small_nodes"),
}


@needs_parmetis
def test_malformed_text_is_refused_with_file_and_line(tmp_path: Path) -> None:
    script = tmp_path / "all.py"
    script.write_text(
        "import sys\nfrom pathlib import Path\nfrom mpi4py import MPI\n"
        "from partition_ops.stages.partition.options import PartitionConfig\n"
        "from partition_ops.errors import InvalidInputError\n"
        "from partition_ops.stages.partition.pm_dglpart.program import dglpart\n"
        "for folder in sys.argv[1:]:\n"
        "    try:\n"
        "        dglpart(PartitionConfig(graph_name='small', num_parts=2), Path(folder), MPI.COMM_WORLD)\n"
        "        print('nothing wrong')\n"
        "    except InvalidInputError as error:\n"
        "        print(error)\n"
    )
    folders, good = [], prepared(library(), tmp_path / "good")
    for index, (change, _) in enumerate(MALFORMED.values()):
        folders.append(Path(shutil.copytree(good, tmp_path / str(index))))
        change(folders[-1])
    done = mpirun(1, script, *folders)
    assert done.returncode == 0, done.stderr
    said = done.stdout.splitlines()
    for (case, (_, pattern)), line in zip(MALFORMED.items(), said, strict=True):
        with pytest.raises(InvalidInputError, match=pattern):
            raise InvalidInputError(f"{case}: {line}")
    assert not [path for folder in folders for path in folder.glob("p*-*")]


@needs_parmetis
def test_an_error_of_one_rank_ends_all_with_its_exit_code(tmp_path: Path) -> None:
    folder = prepared(library(), tmp_path)
    lines = (folder / "small_edges.txt").read_text().splitlines()
    (folder / "small_edges.txt").write_text("\n".join([*lines[:-1], "0 x 0 0"]) + "\n")
    done = mpirun(3, "-m", "partition_ops.cli", "pm-dglpart", "small", "1", cwd=folder)
    assert done.returncode == 3
    assert f"small_edges.txt, line {len(lines)}: <dst_id> is not int64 but 'x'" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_program_on_the_path_is_used_when_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["pm-dglpart", "small", "2", "--use-program"]) == 1
    assert "no pm_dglpart on the PATH" in capsys.readouterr().err
    program = tmp_path / "pm_dglpart"
    program.write_text('#!/bin/sh\necho "$0 $@"\n')
    program.chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-m", "partition_ops.cli", "pm-dglpart", "small", "2", "--use-program"],
        env={**os.environ, "PATH": f"{tmp_path}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
    )
    assert done.stdout == f"{program} small 2\n"


@pytest.mark.parametrize("ranks", [1, 3, 7])
def test_slices_together_are_the_file(ranks: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("partition_ops.formats.parmetis.text_table.CSV_BLOCK", 40)
    path = tmp_path / "edges.txt"
    lines = [f"{i}{' ' if i % 5 else chr(9)}{i * i}" + " more" * (i % 3) for i in range(50)]
    path.write_text("\n".join(lines).replace("\n7 ", "\n\n7 "))
    tables = [TextTable(path, "edges", ("a", "b"), share=(rank, ranks)) for rank in range(ranks)]
    blocks = [(table, block) for table in tables for block in table.blocks()]
    assert np.concatenate([block.columns["b"] for _, block in blocks]).tolist() == [i * i for i in range(50)]
    texts = [text for table, block in blocks for text in table.lines(block).to_pylist()]
    assert b"".join(texts).decode().split("\n")[:-1] == lines
    places = [table.line(block.start) for table, block in blocks]
    blank = path.read_text().split("\n").index("")
    assert places == [
        int(block.columns["a"][0]) + 1 + (block.columns["a"][0] >= blank) for _, block in blocks
    ]
