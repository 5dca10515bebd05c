"""The quality gate: what is worse than allowed is refused and says so, everything else passes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from partition_ops import cli
from partition_ops.artifacts import layout
from partition_ops.errors import QualityGateError, UsageError
from partition_ops.stages.publish.gate import check_gate, enforce_gate
from partition_ops.stages.publish.options import Gate
from partition_ops.storage import Store, open_store
from tests.graphs import library

SHARES = st.floats(0, 1)
IMBALANCES = st.floats(1, 9)


def reports(
    store: Store,
    cut: float,
    imbalances: list[float],
    moved: tuple[int, int] | None,
    training: dict[str, Any] | None = None,
) -> Store:
    """A folder with the reports that a gate reads."""
    report: dict[str, Any] = {
        "version": 1,
        "graph_name": "g",
        **dict.fromkeys(("num_nodes", "num_edges", "communication_volume"), 0),
        "num_parts": 1,
        "replication_factor": 1,
        "edge_cut": {"edges": 0, "fraction": cut},
        "node_types": {
            f"t{number}": {"per_part": [0], "halo_per_part": [0], "imbalance": imbalance}
            for number, imbalance in enumerate(imbalances)
        },
        "edge_types": {},
        "partitions": [],
    }
    if training is not None:
        report["training"] = {"options": {"train_nodes": [], "fanouts": [], "batch_size": 1}, **training}
    store.write_json(layout.QUALITY_REPORT, report)
    if moved is not None:
        store.write_json(layout.MIGRATION, migration(*moved))
    return store


def migration(moved: int, old: int) -> dict[str, Any]:
    """Return the report of a run that moved some of its old nodes."""
    return {
        "version": 1,
        "mode": "incremental",
        "reason": None,
        "previous": {"run": "elsewhere", "manifest_sha256": "0" * 64},
        "node_types": {"t0": {"old": old, "moved": moved, "new": 0, "bytes_to_fetch": 0}},
        "bytes_to_fetch": 0,
        "edge_cut": dict.fromkeys(("before", "now", "last_full", "full")),
        "imbalance": {"before": {}, "now": {}},
    }


def max_moved_says_nothing(gate: Gate, moved: tuple[int, int] | None) -> bool:
    return gate.max_moved is not None and moved is None


@given(
    cut=SHARES,
    imbalances=st.lists(IMBALANCES, min_size=1, max_size=3),
    moved=st.none() | st.tuples(st.integers(0, 10), st.integers(10, 20)),
    max_edge_cut=st.none() | SHARES,
    max_imbalance=st.none() | IMBALANCES,
    max_moved=st.none() | SHARES,
)
def test_it_refuses_what_is_worse_than_allowed_and_nothing_else(
    tmp_path_factory: pytest.TempPathFactory,
    cut: float,
    imbalances: list[float],
    moved: tuple[int, int] | None,
    **allowed: float | None,
) -> None:
    store = reports(open_store(str(tmp_path_factory.mktemp("run"))), cut, imbalances, moved)
    gate = Gate(**allowed)
    worse = [
        gate.max_edge_cut is not None and cut > gate.max_edge_cut,
        *(gate.max_imbalance is not None and value > gate.max_imbalance for value in imbalances),
        gate.max_moved is not None and moved is not None and moved[0] / moved[1] > gate.max_moved,
    ]
    assert len(check_gate(gate, store)) == sum(worse)
    if max_moved_says_nothing(gate, moved):
        with pytest.raises(UsageError, match="--max-moved"):
            enforce_gate(gate, store)
    elif any(worse):
        with pytest.raises(QualityGateError):
            enforce_gate(gate, store)
    else:
        enforce_gate(gate, store)


def test_the_message_says_what_was_found_and_allowed(tmp_path: Path) -> None:
    store = reports(open_store(str(tmp_path)), 0.5, [1.25], (3, 10))
    with pytest.raises(QualityGateError) as refused:
        enforce_gate(Gate(max_edge_cut=0.25, max_imbalance=1.05, max_moved=0.01), store)
    for text in (
        "edge cut 0.5, at most 0.25",
        "imbalance of t0 1.25, at most 1.05",
        "moved 0.3, at most 0.01",
    ):
        assert text in str(refused.value)


def trained(slowest: dict[str, Any] | None) -> dict[str, Any]:
    figures = ("seeds", "batches", "remote_rows_per_batch", "remote_bytes_per_batch")
    total = {**dict.fromkeys(figures, 0), "remote_neighbour_share": 0}
    return {"row_bytes": {}, "partitions": [], "total": total, "slowest": slowest}


SLOWEST = {"part": 0, "remote_rows_per_batch": 99.5, "remote_bytes_per_batch": 1, "ratio": 1.5}


@pytest.mark.parametrize(
    ("allowed", "found"),
    [
        ({"max_remote_rows": 99.5, "max_slowest": 1.5}, []),
        ({"max_remote_rows": 99}, ["remote rows a batch of the slowest trainer 99.5, at most 99 allowed"]),
        ({"max_slowest": 1.2}, ["slowest trainer over the mean 1.5, at most 1.2 allowed"]),
    ],
)
def test_limits_of_what_trainers_fetch(tmp_path: Path, allowed: dict[str, float], found: list[str]) -> None:
    store = reports(open_store(str(tmp_path)), 0.5, [1.0], None, trained(SLOWEST))
    assert [str(one) for one in check_gate(Gate(**allowed), store)] == found


def test_without_train_nodes_trainers_fetch_nothing(tmp_path: Path) -> None:
    store = reports(open_store(str(tmp_path)), 0.5, [1.0], None, trained(None))
    assert check_gate(Gate(max_remote_rows=0, max_slowest=1), store) == []


@pytest.mark.parametrize("training", [None, {"left_out": "too many edges"}])
def test_limits_of_unknown_figures_are_wrong_use(tmp_path: Path, training: dict[str, Any] | None) -> None:
    store = reports(open_store(str(tmp_path)), 0.5, [1.0], None, training)
    assert check_gate(Gate(), store) == []
    for gate in (Gate(max_remote_rows=1), Gate(max_slowest=2)):
        with pytest.raises(UsageError, match=training["left_out"] if training else "another version"):
            enforce_gate(gate, store)


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_edge_cut": 1.5},
        {"max_imbalance": 0.5},
        {"max_moved": -0.1},
        {"max_remote_rows": -1},
        {"max_slowest": 0.5},
    ],
)
def test_a_gate_that_cannot_be_is_wrong_use(wrong: dict[str, float]) -> None:
    with pytest.raises(UsageError, match=next(iter(wrong)).replace("_", "-")):
        Gate(**wrong)


def test_a_run_that_does_not_pass_is_not_finished(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, out = str(library().write(tmp_path / "in")), tmp_path / "out"
    words = ["run", source, str(out), "--num-parts", "2", "--engine", "random", "--json"]
    assert cli.main([*words, "--max-edge-cut", "0.01"]) == 1
    error = json.loads(capsys.readouterr().out)["error"]
    assert error["kind"] == "QualityGateError" and "edge cut" in error["found"][0]
    assert (out / layout.QUALITY_REPORT).exists() and not (out / layout.MANIFEST).exists()
    assert cli.main([*words, "--max-edge-cut", "0.99"]) == 0
    assert (out / layout.MANIFEST).exists()
