"""The output format ``graphstorm``: DGL's files, shared with ``dgl``, and what GraphStorm has beside them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from partition_ops.jobs.fetch import fetch_partitions
from partition_ops.storage import open_store
from partition_ops.system.dgl_import import import_dgl
from partition_ops.verification.verify import verify_output
from tests.graphs import library
from tests.train_graphs import partitioned

FOLDER = "formats/graphstorm"
GRAPH = library()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("library")
    partitioned(GRAPH, found, formats=("dgl", "graphstorm"))
    return found


def failed(folder: Path, output: Path) -> set[str]:
    report = verify_output(open_store(str(folder / "input")), open_store(str(output)))
    return {check.name for check in report.failed} - {"manifest-artifacts"}


def test_the_files_of_dgl_are_shared(folder: Path) -> None:
    ours, theirs = folder / "output" / FOLDER, folder / "output/partitions"
    names = [path.relative_to(ours) for path in ours.rglob("*.dgl")]
    assert len(names) == 3 * 5
    shared = {name for name in names if (ours / name).samefile(theirs / name)}
    assert {*names} - shared == {Path(f"part{part}/edge_feat.dgl") for part in range(3)}  # year: one number
    for part in range(3):
        name, place = "paper:cites:paper/year", f"part{part}/edge_feat.dgl"
        load = import_dgl().data.utils.load_tensors
        wide, flat = (load(str(root / place))[name] for root in (ours, theirs))
        assert wide.ndim == 2 and wide[:, 0].equal(flat)
    assert (ours / "small.json").read_bytes() == (theirs / "small.json").read_bytes()
    part = import_dgl().distributed.load_partition(str(ours / "small.json"), 1)
    assert part[0].num_nodes() > 0
    assert failed(folder, folder / "output") == set()


def test_ids_map_to_those_of_the_input(folder: Path) -> None:
    for name, count in GRAPH.nodes.items():
        (file,) = (folder / "output" / FOLDER / "raw_id_mappings" / name).iterdir()
        table = pq.read_table(file)
        assert file.name == "part-00000.parquet" and table.column_names == ["orig", "new"]
        assert table.column("orig").to_pylist() == table.column("new").to_pylist() == [*range(count)]


def test_the_record_has_types_and_shapes(folder: Path) -> None:
    record = json.loads((folder / "output" / FOLDER / "data_transform_new.json").read_text())
    assert "runtime" in record["version"] and record["is_homogeneous"] is False
    assert [one["node_type"] for one in record["nodes"]] == list(GRAPH.nodes)
    assert [":".join(one["relation"]) for one in record["edges"]] == list(GRAPH.edges)
    found = {
        (one["node_type"], feature["feature_name"]): feature["feature_dim"]
        for one in record["nodes"]
        for feature in one.get("features", [])
    }
    assert found == {(v.type_name, v.name): list(v.array.shape[1:]) or [1] for v in GRAPH.node_values}


def wrong_id(folder: Path) -> None:
    file = folder / "raw_id_mappings/paper/part-00000.parquet"
    ids = np.arange(GRAPH.nodes["paper"])
    pq.write_table(pa.table({"orig": ids[::-1], "new": ids}), file)


def wrong_shape(folder: Path) -> None:
    record = json.loads((folder / "data_transform_new.json").read_text())
    next(one for one in record["nodes"] if "features" in one)["features"][0]["feature_dim"] = [99]
    (folder / "data_transform_new.json").write_text(json.dumps(record))


@pytest.mark.parametrize(
    ("change", "check"), [(wrong_id, "graphstorm-raw-ids"), (wrong_shape, "configuration")]
)
def test_verify_finds_damage(
    change: Callable[[Path], None], check: str, folder: Path, tmp_path: Path
) -> None:
    shutil.copytree(folder / "output", tmp_path / "output")
    change(tmp_path / "output" / FOLDER)
    assert failed(folder, tmp_path / "output") == {check}


def test_fetch_brings_a_folder_for_graphstorm(folder: Path, tmp_path: Path) -> None:
    result = fetch_partitions(open_store(str(folder / "output")), [2], tmp_path, formats=["graphstorm"])
    assert result["partition_config"] == str(tmp_path / FOLDER / "small.json")
    assert (tmp_path / FOLDER / "part2/orig_nids.dgl").is_file()  # by which GraphStorm finds new IDs
    assert (tmp_path / FOLDER / "raw_id_mappings/paper/part-00000.parquet").is_file()
