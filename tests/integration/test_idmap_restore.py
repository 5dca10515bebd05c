"""Rows in new-ID order go back into original order, and the other way round."""

from __future__ import annotations

import json
import shlex
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from partition_ops.cli import main
from partition_ops.errors import InvalidInputError, UsageError
from partition_ops.jobs.options import RunConfig
from partition_ops.jobs.whole_job import run_job
from partition_ops.stages.convert.convert import convert_graph
from partition_ops.stages.convert.options import ConvertConfig
from partition_ops.stages.idmap import row_files
from partition_ops.stages.idmap.export import export_id_maps
from partition_ops.stages.idmap.options import IdMapConfig, RemapConfig
from partition_ops.stages.idmap.restore import apply_rows, restore_rows
from partition_ops.stages.idmap.row_files import RowFile
from partition_ops.stages.partition.options import PartitionConfig
from partition_ops.stages.partition.partition import partition_nodes
from partition_ops.stages.validate.options import ValidateConfig
from partition_ops.stages.validate.validate import validate_graph
from partition_ops.storage import StorageSettings, Store, open_store
from partition_ops.system.dgl_import import import_dgl
from tests.graphs import Edges, SmallGraph, library
from tests.pages import commands_to_run
from tests.uploads import upload_folder

PARTS = 3
CITES = "paper:cites:paper"


def finished(graph: SmallGraph, folder: Path, num_parts: int = PARTS) -> Store:
    """The root of a run with its ID maps."""
    source = open_store(str(graph.write(folder / "input")))
    run = open_store(str(folder / "run"))
    partition_nodes(PartitionConfig(num_parts=num_parts, engine="random", balance="none"), source, run)
    convert_graph(ConvertConfig(), source, run)
    export_id_maps(IdMapConfig(), source, run)
    return run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return finished(library(), tmp_path_factory.mktemp("run"))


def orig_ids(run: Store, type_name: str, file: str = "orig_nids.dgl") -> list[np.ndarray]:
    """Original IDs by type-wise new ID, of each partition, from the partitions themselves."""
    load = import_dgl().data.utils.load_tensors
    paths = [run.local_copy(f"partitions/part{part}/{file}") for part in range(PARTS)]
    return [load(str(path))[type_name].numpy() for path in paths]


def embeddings(ids: np.ndarray) -> np.ndarray:
    """(n, 3) float32, a row that tells the original ID."""
    return np.stack([ids, ids * 2, -ids], axis=1).astype(np.float32)


def save(path: Path, rows: np.ndarray) -> RowFile:
    store = open_store(str(path.parent))
    if path.suffix == ".npy":
        np.save(path, rows)
    elif path.suffix == ".pt":
        torch.save(torch.from_numpy(rows), path)
    else:
        with RowFile(store, path.name).create(rows.shape, rows.dtype) as new:
            new[:] = rows
    return RowFile(store, path.name)


def arguments(run: Store, verb: str, *words: object, **options: object) -> list[str]:
    flags = [str(word) for name, value in options.items() for word in (f"--{name.replace('_', '-')}", value)]
    return ["idmap", verb, run.uri, *flags, *map(str, words)]


@pytest.mark.parametrize("out", [".npy", ".pt", ".parquet"])
@pytest.mark.parametrize("suffix", [".npy", ".pt", ".parquet"])
@pytest.mark.parametrize("each", [False, True])
def test_restore_nodes(run: Store, tmp_path: Path, suffix: str, out: str, each: bool) -> None:
    pieces = orig_ids(run, "paper")
    assert any((np.diff(np.concatenate(pieces)) < 0).tolist())  # else the test proves nothing
    rows = [embeddings(ids) for ids in (pieces if each else [np.concatenate(pieces)])]
    inputs = [save(tmp_path / f"emb-{i}{suffix}", piece) for i, piece in enumerate(rows)]
    output = RowFile(open_store(str(tmp_path)), f"restored{out}")
    result = restore_rows(RemapConfig(node_type="paper"), run, inputs, output)
    assert np.array_equal(output.open(), embeddings(np.arange(40)))
    assert (result["rows"], result["row_shape"], result["dtype"]) == (40, [3], "float32")


def test_restore_edges(run: Store, tmp_path: Path) -> None:
    ids = np.concatenate(orig_ids(run, CITES, "orig_eids.dgl"))
    output = RowFile(open_store(str(tmp_path)), "restored.npy")
    restore_rows(RemapConfig(edge_type=CITES), run, [save(tmp_path / "scores.npy", ids * 7)], output)
    assert np.array_equal(output.open(), np.arange(len(ids)) * 7)


@pytest.mark.parametrize("cuts", [[40], [11, 29], [0, 40], [1, 1, 1, 37]])
def test_apply_is_the_inverse(
    run: Store, tmp_path: Path, cuts: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_files, "BATCH_BYTES", 60)  # batches of a few rows
    rows = np.random.default_rng(0).normal(size=(40, 2, 2)).astype(np.float16)
    pieces = np.split(rows, np.cumsum(cuts)[:-1])
    inputs = [save(tmp_path / f"feat{i}.npy", piece) for i, piece in enumerate(pieces)]
    store = open_store(str(tmp_path))
    config = RemapConfig(node_type="paper")
    apply_rows(config, run, inputs, RowFile(store, "applied.npy"))
    expected = [rows[ids] for ids in orig_ids(run, "paper")]
    assert np.array_equal(RowFile(store, "applied.npy").open(), np.concatenate(expected))
    apply_rows(config, run, inputs, RowFile(store, "part{part}.npy"))
    parts = [RowFile(store, f"part{part}.npy") for part in range(PARTS)]
    for part, values in zip(parts, expected, strict=True):
        assert np.array_equal(part.open(), values)
    restore_rows(config, run, parts, RowFile(store, "back.npy"))
    assert np.array_equal(RowFile(store, "back.npy").open(), rows)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int64", "float64", ">f4"])
def test_dtypes_stay(run: Store, tmp_path: Path, dtype: str) -> None:
    rows = np.arange(40).astype(dtype)
    output = RowFile(open_store(str(tmp_path)), "applied.npy")
    apply_rows(RemapConfig(node_type="paper"), run, [save(tmp_path / "rows.npy", rows)], output)
    assert output.open().dtype == np.dtype(dtype).newbyteorder("=")
    assert np.array_equal(np.sort(output.open()), np.sort(rows))


def test_a_type_without_nodes(tmp_path: Path) -> None:
    run = finished(SmallGraph({"a": 4, "none": 0}, {"a:r:a": Edges([0], [1])}), tmp_path, 2)
    rows = save(tmp_path / "rows.npy", np.empty((0, 3), np.float32))
    for name in ("out.npy", "out.pt", "out.parquet"):
        output = RowFile(open_store(str(tmp_path)), name)
        restore_rows(RemapConfig(node_type="none"), run, [rows], output)
        assert output.open().shape[0] == 0


def test_edges_that_validation_dropped_have_rows_of_zeros(tmp_path: Path) -> None:
    graph = SmallGraph({"a": 6}, {"a:r:a": Edges([0, 0, 1, 2, 2, 3, 3], [1, 1, 1, 3, 3, 4, 5])})
    source, run = open_store(str(graph.write(tmp_path / "input"))), open_store(str(tmp_path / "run"))
    validate_graph(ValidateConfig(on_defect="drop"), source, run)
    finished(graph, tmp_path)
    config, store = RemapConfig(edge_type="a:r:a"), open_store(str(tmp_path))
    rows = save(tmp_path / "rows.npy", np.arange(10, 17))
    apply_rows(config, run, [rows], RowFile(store, "applied.npy"))
    assert sorted(RowFile(store, "applied.npy").open()) == [10, 13, 15, 16]
    result = restore_rows(config, run, [RowFile(store, "applied.npy")], RowFile(store, "back.npy"))
    assert RowFile(store, "back.npy").open().tolist() == [10, 0, 0, 13, 0, 15, 16]
    assert (result["rows"], result["dropped"]) == (4, 3)
    with pytest.raises(InvalidInputError, match=r"Expected: 7, .* \(3 were dropped"):
        apply_rows(config, run, [RowFile(store, "applied.npy")], RowFile(store, "wrong.npy"))


def test_command_there_and_back(run: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = embeddings(np.arange(40))
    np.save(tmp_path / "rows.npy", rows)
    to = tmp_path / "new" / "part{part}.parquet"
    assert main(arguments(run, "apply", node_type="paper", input=tmp_path / "rows.npy", output=to)) == 0
    parts = [tmp_path / "new" / f"part{part}.parquet" for part in range(PARTS)]
    assert sum(pq.read_metadata(part).num_rows for part in parts) == 40
    capsys.readouterr()
    words = ["--node-type", "paper", "--input", *parts, "--output", tmp_path / "back.npy", "--json"]
    assert main(arguments(run, "restore", *words)) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == 40
    assert np.array_equal(np.load(tmp_path / "back.npy"), rows)


@pytest.mark.parametrize("verb", ["restore", "apply"])
@pytest.mark.parametrize("count", [0, 39, 41])
def test_wrong_number_of_rows(
    run: Store, tmp_path: Path, verb: str, count: int, capsys: pytest.CaptureFixture[str]
) -> None:
    np.save(tmp_path / "rows.npy", np.zeros((count, 2)))
    out = tmp_path / "out.npy"
    assert main(arguments(run, verb, node_type="paper", input=tmp_path / "rows.npy", output=out)) == 3
    printed = capsys.readouterr().err
    assert f"{count} rows" in printed
    assert "40, one for each of the node type 'paper'" in printed
    assert not out.exists()


def test_files_of_other_partitions(run: Store, tmp_path: Path) -> None:
    pieces = [embeddings(ids) for ids in orig_ids(run, "paper")]
    sizes = [len(piece) for piece in pieces]
    assert sizes[0] != sizes[2]  # else nothing could be noticed
    inputs = [save(tmp_path / f"{name}.npy", pieces[i]) for i, name in ((2, "c"), (1, "b"), (0, "a"))]
    with pytest.raises(InvalidInputError, match="not of partition 0: its number of rows is wrong"):
        restore_rows(
            RemapConfig(node_type="paper"), run, inputs, RowFile(open_store(str(tmp_path)), "out.npy")
        )


def test_files_in_the_order_of_a_shell(run: Store, tmp_path: Path) -> None:
    inputs = [save(tmp_path / f"part{i}.npy", np.zeros(10)) for i in (0, 1, 10, 2)]
    with pytest.raises(UsageError, match="order of their numbers"):
        restore_rows(
            RemapConfig(node_type="paper"), run, inputs, RowFile(open_store(str(tmp_path)), "out.npy")
        )


def test_files_with_other_rows(run: Store, tmp_path: Path) -> None:
    inputs = [save(tmp_path / f"{i}.npy", np.zeros((20, i + 1))) for i in range(2)]
    with pytest.raises(InvalidInputError, match=r"rows of shape \(2,\)"):
        restore_rows(
            RemapConfig(node_type="paper"), run, inputs, RowFile(open_store(str(tmp_path)), "out.npy")
        )


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        ({"node_type": "book"}, 2, "one of 'author', 'paper', 'venue'"),
        ({"edge_type": "cites"}, 2, f"'{CITES}'"),
        ({"node_type": "paper", "input": "nowhere.npy"}, 3, "nowhere.npy"),
        ({"node_type": "paper", "input": "rows.txt"}, 2, ".npy or .pt or .parquet"),
        ({"node_type": "paper", "output": "out.csv"}, 2, ".npy or .pt or .parquet"),
        ({"node_type": "paper", "input": "broken.npy"}, 3, "cannot be read as .npy"),
        ({"node_type": "paper", "input": "broken.pt"}, 3, "cannot be read as .pt"),
        ({"node_type": "paper", "input": "broken.parquet"}, 3, "cannot be read as Parquet"),
        ({"node_type": "paper", "input": "dict.pt"}, 3, "no dense tensor"),
        ({"node_type": "paper", "input": "number.pt"}, 3, "no rows of numbers"),
    ],
)
def test_wrong_arguments(
    run: Store,
    tmp_path: Path,
    options: dict[str, str],
    code: int,
    message: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("rows.npy", np.zeros(40))
    for name in ("broken.npy", "broken.pt", "broken.parquet", "rows.txt"):
        Path(name).write_bytes(b"neither this nor that")
    torch.save({"emb": torch.zeros(40)}, "dict.pt")
    torch.save(torch.tensor(1.0), "number.pt")
    values = {"input": "rows.npy", "output": "out.npy"} | options
    assert main(arguments(run, "restore", **values)) == code
    printed = capsys.readouterr().err
    assert message in printed
    assert "defect of ours" not in printed


def test_one_type_must_be_named(run: Store, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments(run, "restore", input="a.npy", output="b.npy")) == 2
    assert "either --node-type or --edge-type" in capsys.readouterr().err
    with pytest.raises(UsageError, match="Name one type"):
        RemapConfig()


def test_the_guide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every command of docs/id-maps.md, as it stands there."""
    monkeypatch.chdir(tmp_path)
    source = open_store(str(library().write(tmp_path / "graphs/mag")))
    run_job(RunConfig(num_parts=4, engine="random", seed=1), source, open_store("out/mag-2"))
    rows = np.random.default_rng(0).random((40, 2))
    names = [f"paper {i}" for i in range(40)]
    pq.write_table(pa.table({"name": names, "size": range(40)}), "names.parquet")
    np.save("feat.npy", rows)
    page = Path(__file__).parents[2] / "docs/id-maps.md"
    run, *verbs = [shlex.split(line)[1:] for line in commands_to_run(page)]
    assert run[0] == "run" and main(run) == 0
    for words in sorted(verbs):  # apply first: it makes the inputs of restore
        if words[1] == "restore":
            shutil.copy("new/feat.npy", "emb.npy")
            shutil.copytree("new", "emb", dirs_exist_ok=True)
        assert main(words) == 0
        if words[1] == "restore" and "restored.npy" in words:
            assert np.array_equal(np.load("restored.npy"), rows)
    named = pq.ParquetFile("named.parquet").read()
    assert named["id"].to_pylist() == names
    assert named["value"].to_pylist() == rows.tolist()
    for file in ("moved/edges/paper:in:venue.parquet", "out/mag/idmap/nodes/paper.npy"):
        assert Path(file).is_file()
    assert [words[1] for words in sorted(verbs)] == [
        *("apply", "apply", "carry-over", "export", "export", "restore", "restore", "restore")
    ]


def test_on_s3(run: Store, tmp_path: Path, s3_root: str, s3_settings: StorageSettings) -> None:
    upload = open_store(s3_root, s3_settings)
    with upload:
        upload_folder(Path(run.uri), upload.child("run"))
        rows = embeddings(np.concatenate(orig_ids(run, "paper")))
        upload.write_array("rows.npy", rows)
        inputs, output = [RowFile(upload, "rows.npy")], RowFile(upload, "out.pt")
        restore_rows(RemapConfig(node_type="paper"), upload.child("run"), inputs, output)
        assert np.array_equal(output.open(), embeddings(np.arange(40)))
