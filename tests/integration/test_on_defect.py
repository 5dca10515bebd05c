"""The actions drop, exclude and warn for duplicate and self-loop edges."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partition_ops.artifacts import layout
from partition_ops.jobs.options import RunConfig
from partition_ops.jobs.whole_job import run_job
from partition_ops.stages.idmap.export import export_id_maps
from partition_ops.stages.idmap.options import IdMapConfig
from partition_ops.storage import Store, open_store
from partition_ops.system.dgl_import import import_dgl
from tests.defects import CHECKS, CHOICES, cleaned, findings, kept_edges, with_defects
from tests.graphs import SHAPES, SmallGraph, library, social
from tests.strategies import graphs
from tests.temporary import temporary_folder

PARTS = 3
GRAPHS = {
    "library": with_defects(library()),
    "social": with_defects(social()),
    **{name: SHAPES[name] for name in ("duplicates and self-loops", "self-loops that are there twice")},
}


@contextmanager
def output(graph: SmallGraph, config: RunConfig) -> Iterator[Store]:
    with temporary_folder() as folder:
        source, out = (open_store(f"{folder}/{name}") for name in ("in", "out"))
        graph.write(Path(folder) / "in")
        run_job(config, source, out)
        yield out


def config_of(choice: dict[str, str] | str, engine: str = "metis", num_parts: int = PARTS) -> RunConfig:
    return RunConfig(num_parts=num_parts, engine=engine, balance="edges", on_defect=choice)


def same_bytes(one: Store, other: Store, *prefixes: str) -> None:
    for prefix in prefixes:
        keys = [entry.key for entry in one.list(prefix)]
        assert keys, prefix
        assert keys == [entry.key for entry in other.list(prefix)]
        assert [key for key in keys if one.read_bytes(key) != other.read_bytes(key)] == []


def tensors(store: Store, part: int, name: str) -> dict[str, Any]:
    path = store.local_copy(f"partitions/part{part}/{name}")
    return {key: t.numpy() for key, t in import_dgl().data.utils.load_tensors(str(path)).items()}


def same_graphs(one: Store, clean: Store, part: int, kept: dict[str, list[int]]) -> None:
    """Compare ``graph.dgl`` and its original edge IDs; ``kept`` translates those of the clean graph."""
    dgl, key = import_dgl(), f"partitions/part{part}/graph.dgl"
    found, expected = (dgl.load_graphs(str(store.local_copy(key)))[0][0] for store in (one, clean))
    fields = [(end.tolist(), g.ndata, g.edata) for g in (found, expected) for end in g.edges(order="eid")]
    assert fields[0][0] == fields[2][0]
    assert fields[1][0] == fields[3][0]
    for mine, other, but in ((found.ndata, expected.ndata, ()), (found.edata, expected.edata, ("orig_id",))):
        assert mine.keys() == other.keys()
        assert all(mine[name].tolist() == other[name].tolist() for name in mine if name not in but)
    here, there = (tensors(store, part, "orig_eids.dgl") for store in (one, clean))
    assert {name: ids.tolist() for name, ids in here.items()} == {
        name: [kept[name][i] for i in ids] for name, ids in there.items()
    }


def same_edge_maps(one: Store, clean: Store, kept: dict[str, list[int]]) -> None:
    for name, ids in kept.items():
        found, expected = (
            pq.read_table(store.local_copy(layout.edge_id_map(name))) for store in (one, clean)
        )
        assert found["orig_id"].to_pylist() == [ids[i] for i in expected["orig_id"].to_pylist()]
        assert sorted(found["orig_id"].to_pylist()) == ids
        assert found.drop_columns(["orig_id"]) == expected.drop_columns(["orig_id"])


def same_edge_features(one: Store, clean: Store, part: int) -> None:
    found, expected = (tensors(store, part, "edge_feat.dgl") for store in (one, clean))
    assert found.keys() == expected.keys()
    for name, rows in found.items():
        assert len(rows) == len(expected[name])
        if len(rows):  # an empty CSV does not say what its columns are
            assert (rows.dtype, rows.shape) == (expected[name].dtype, expected[name].shape)
            assert rows.tobytes() == expected[name].tobytes()


def check_dropping(graph: SmallGraph, checks: tuple[str, ...], engine: str, num_parts: int = PARTS) -> None:
    """Compare an output with that of the graph cleaned by hand; only the original IDs of edges may differ."""
    others = {check: "warn" for check in CHECKS if check not in checks}
    choice, strict = ({**others, **dict.fromkeys(checks, action)} for action in ("drop", "fail"))
    kept = kept_edges(graph, checks)
    with (
        output(graph, config_of(choice, engine, num_parts)) as one,
        output(cleaned(graph, checks), config_of(strict, engine, num_parts)) as clean,
    ):
        nodes = [
            f"partitions/part{part}/{name}"
            for part in range(num_parts)
            for name in ("node_feat", "orig_nids")
        ]
        same_bytes(one, clean, "assignment/", "partitions/small.json", "idmap/nodes/", *nodes)
        same_edge_maps(one, clean, kept)
        for part in range(num_parts):
            same_graphs(one, clean, part, kept)
            same_edge_features(one, clean, part)


@pytest.mark.parametrize("checks", [CHECKS, CHECKS[:1], CHECKS[1:]], ids="-".join)
@pytest.mark.parametrize("name", GRAPHS)
def test_dropping_equals_cleaning_by_hand(name: str, checks: tuple[str, ...]) -> None:
    check_dropping(GRAPHS[name], checks, "metis")


@settings(max_examples=12)
@given(
    graph=graphs(),
    checks=st.sampled_from([CHECKS, CHECKS[:1], CHECKS[1:]]),
    engine=st.sampled_from(["metis", "random"]),
    num_parts=st.integers(1, 4),
)
def test_dropping_from_any_graph(
    graph: SmallGraph, checks: tuple[str, ...], engine: str, num_parts: int
) -> None:
    check_dropping(graph, checks, engine, graph.parts(num_parts))


@pytest.mark.parametrize("name", GRAPHS)
def test_the_partitioner_does_not_see_excluded_edges(name: str) -> None:
    """The assignment is that of the graph without them, also by in-degrees; the output has every edge."""
    graph = GRAPHS[name]
    with (
        output(graph, config_of("exclude")) as one,
        output(cleaned(graph, CHECKS), config_of("fail")) as clean,
    ):
        same_bytes(one, clean, "prepare/", "assignment/")
        total = sum(len(ends.src) for ends in graph.edges.values())
        assert one.read_json("partitions/small.json")["num_edges"] == total
        assert not list(one.list(f"{layout.IDMAP}/{layout.DROPPED}/"))


def test_in_edges_with_the_action_warn_count_in_the_balance() -> None:
    graph = GRAPHS["social"]
    with output(graph, config_of("exclude")) as excluded, output(graph, config_of("warn")) as warned:
        degrees = [np.load(store.local_copy(layout.PREPARED_IN_DEGREES)) for store in (excluded, warned)]
    wrong = sum(bool(found) for name, ends in graph.edges.items() for found in findings(name, ends))
    assert int(degrees[1].sum() - degrees[0].sum()) == wrong > 0


@pytest.fixture(scope="module", params=CHOICES, ids=lambda choice: "-".join(choice.values()))
def chosen(request: pytest.FixtureRequest) -> Iterator[tuple[dict[str, str], Store, dict[str, int]]]:
    """Actions for each check, the output of the library with them, and the counters of its validation."""
    with temporary_folder() as folder:
        source, out = (open_store(f"{folder}/{name}") for name in ("in", "out"))
        GRAPHS["library"].write(Path(folder) / "in")
        first, *_ = run_job(config_of(request.param, "random"), source, out)
        yield request.param, out, first.counters


def test_the_id_maps_list_dropped_edges_and_the_check(
    chosen: tuple[dict[str, str], Store, dict[str, int]],
) -> None:
    graph, (choice, out, _) = GRAPHS["library"], chosen
    listed = {
        name: pq.read_table(out.local_copy(key)).to_pydict()
        for name in graph.edges
        if out.exists(key := layout.dropped_edge_map(name))
    }
    expected: dict[str, dict[str, list[Any]]] = {}
    for name, ends in graph.edges.items():
        for orig_id, wrong in enumerate(findings(name, ends)):
            reasons = [check for check in wrong if choice[check] == "drop"]
            if reasons:
                rows = expected.setdefault(name, {"orig_id": [], "check": []})
                rows["orig_id"].append(orig_id)
                rows["check"].append(max(reasons))  # self_loop_edges where it is both
    assert listed == expected


def expected_counts(graph: SmallGraph, choice: dict[str, str]) -> dict[str, int]:
    """Return the counts of edges by action; an edge counts once, for the first action of the three."""
    counts = {"edges_dropped": 0, "edges_excluded": 0, "edges_warned_of": 0}
    names = {"drop": "edges_dropped", "exclude": "edges_excluded", "warn": "edges_warned_of"}
    for name, ends in graph.edges.items():
        for wrong in findings(name, ends):
            met = [action for action in names if action in {choice[check] for check in wrong}]
            if met:
                counts[names[met[0]]] += 1
    return counts


def test_the_counters_have_the_edges_of_each_action(
    chosen: tuple[dict[str, str], Store, dict[str, int]],
) -> None:
    choice, out, counters = chosen
    counts = expected_counts(GRAPHS["library"], choice)
    assert sum(counts.values()) > 10
    assert {name: counters[name] for name in counts} == counts
    options = out.read_json(layout.MANIFEST)["options"]["validate"]
    actions = options["on_defect"]
    assert {check: actions[check] for check in CHECKS} == choice
    assert actions == out.read_json(layout.VALIDATION_REPORT)["actions"]
    assert set(actions) > set(CHECKS)  # in full: also those that were not chosen


def test_part_maps_have_no_partition_for_dropped_edges(tmp_path: Path) -> None:
    graph = GRAPHS["library"]
    source, out = open_store(str(graph.write(tmp_path / "in"))), open_store(str(tmp_path / "out"))
    run_job(config_of("drop"), source, out)
    export_id_maps(IdMapConfig(vectors=True, part_maps=True), source, out)
    parts = np.load(out.local_copy(layout.EDGE_MAP))
    dropped = [bool(wrong) for name, ends in graph.edges.items() for wrong in findings(name, ends)]
    assert (parts == -1).tolist() == dropped
    assert parts.max() == PARTS - 1
    for name, kept in kept_edges(graph, CHECKS).items():
        assert sorted(np.load(out.local_copy(layout.edge_id_vector(name))).tolist()) == kept


def test_another_action_leaves_nothing_of_the_one_before(tmp_path: Path) -> None:
    source = open_store(str(GRAPHS["library"].write(tmp_path / "in")))
    used, fresh = open_store(str(tmp_path / "used")), open_store(str(tmp_path / "fresh"))
    run_job(config_of("drop", "random"), source, used)
    other = config_of({"duplicate_edges": "exclude", "self_loop_edges": "drop"}, "random")
    run_job(other, source, used)
    run_job(other, source, fresh)
    same_bytes(used, fresh, *(f"{folder}/" for folder in ("validation", "partitions", "idmap", "quality")))
    assert used.read_bytes(layout.MANIFEST) == fresh.read_bytes(layout.MANIFEST)
