"""From one run to another over the same graph."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partition_ops.artifacts.partition_book import PartitionBook
from partition_ops.cli import main
from partition_ops.errors import InvalidInputError
from partition_ops.jobs.options import RunConfig
from partition_ops.jobs.whole_job import run_job
from partition_ops.stages.idmap import carry_over as module
from partition_ops.stages.idmap.carry_over import carry_over
from partition_ops.storage import Store, open_store
from tests.graphs import SmallGraph, library
from tests.strategies import graphs


def run(graph: SmallGraph, folder: Path, num_parts: int, engine: str = "random") -> Store:
    source = open_store(str(graph.write(folder / "input")))
    output = open_store(str(folder / f"{engine}-{num_parts}"))
    run_job(RunConfig(num_parts=graph.parts(num_parts), engine=engine, on_defect="warn"), source, output)
    return output


def columns(folder: Path, key: str) -> dict[str, np.ndarray]:
    table = pq.ParquetFile(folder / key).read()
    return {name: table.column(name).to_numpy() for name in table.column_names}


@pytest.mark.long
@settings(max_examples=10)
@given(
    graph=graphs(), parts=st.tuples(st.integers(1, 4), st.integers(1, 4)), rows=st.sampled_from([3, 1 << 20])
)
def test_every_node_and_edge_keeps_its_original(
    graph: SmallGraph,
    parts: tuple[int, int],
    rows: int,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("carry")
    old, new = run(graph, folder, parts[0], "metis"), run(graph, folder, parts[1])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "ROWS", rows)
        result = carry_over(old, new, open_store(str(folder / "maps")))
    assert len(result["output"]) == len(graph.nodes) + len(graph.edges)
    with PartitionBook(old) as before, PartitionBook(new) as after:
        for name, count in graph.nodes.items():
            found = columns(folder, f"maps/nodes/{name}.parquet")
            assert found["old_type_new_id"].tolist() == list(range(count))
            assert found["old_new_id"].tolist() == before.map_to_homo_nid(np.arange(count), name).tolist()
            assert found["new_id"].tolist() == after.map_to_homo_nid(found["type_new_id"], name).tolist()
            originals = before.nid_new2orig(found["old_type_new_id"], name)
            assert after.nid_new2orig(found["type_new_id"], name).tolist() == originals.tolist()
            assert sorted(found["type_new_id"].tolist()) == list(range(count))
        for name, edges in graph.edges.items():
            found = columns(folder, f"maps/edges/{name}.parquet")
            originals = before.eid_new2orig(np.arange(len(edges.src)), name)
            assert after.eid_new2orig(found["type_new_id"], name).tolist() == originals.tolist()
            assert found["new_id"].tolist() == after.map_to_homo_eid(found["type_new_id"], name).tolist()


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Embeddings that are carried over are those of the same original nodes."""
    old, new = run(library(), tmp_path, 2), run(library(), tmp_path, 3)
    maps = tmp_path / "maps"
    assert (
        main(["idmap", "carry-over", old.uri, new.uri, "--output", str(maps), "--nodes-only", "--json"]) == 0
    )
    assert json.loads(capsys.readouterr().out)["rows"] == 65
    assert sorted(path.stem for path in maps.rglob("*.parquet")) == ["author", "paper", "venue"]
    with PartitionBook(old) as before, PartitionBook(new) as after:
        every = np.arange(40)
        learned = 10 * before.nid_new2orig(every, "paper")  # by type-wise new ID of the old run
        carried = np.empty_like(learned)
        carried[columns(maps, "nodes/paper.parquet")["type_new_id"]] = learned
        assert carried.tolist() == (10 * after.nid_new2orig(every, "paper")).tolist()


def test_a_graph_that_has_shrunk_is_refused(tmp_path: Path) -> None:
    old = run(library(papers=42), tmp_path / "old", 2)
    new = run(library(), tmp_path / "new", 2)
    with pytest.raises(InvalidInputError, match=r"not runs of the same graph.*'author' differs.*20.*21"):
        carry_over(old, new, open_store(str(tmp_path / "maps")))
    assert not (tmp_path / "maps").exists()


def test_of_a_graph_that_has_grown_old_nodes_are_carried_over_and_edges_refused(tmp_path: Path) -> None:
    old = run(library(), tmp_path / "old", 2)
    new = run(library(papers=42), tmp_path / "new", 3)
    with pytest.raises(InvalidInputError, match=r"'author:writes:paper' differs.*--nodes-only"):
        carry_over(old, new, open_store(str(tmp_path / "maps")))
    result = carry_over(old, new, open_store(str(tmp_path / "maps")), edges=False)
    assert result["rows"] == 65
    with PartitionBook(old) as before, PartitionBook(new) as after:
        found = columns(tmp_path, "maps/nodes/paper.parquet")
        originals = before.nid_new2orig(found["old_type_new_id"], "paper")
        assert after.nid_new2orig(found["type_new_id"], "paper").tolist() == originals.tolist()
        assert sorted(originals.tolist()) == list(range(40))
    damaged = bytearray(old.read_bytes("idmap/nodes/paper.parquet"))
    damaged[100] ^= 1
    old.write_bytes("idmap/nodes/paper.parquet", bytes(damaged))
    with pytest.raises(InvalidInputError, match=r"nodes/paper\.parquet is not the file that the run wrote"):
        carry_over(old, new, open_store(str(tmp_path / "other")), edges=False)
    assert not (tmp_path / "other/nodes/paper.parquet").exists()
