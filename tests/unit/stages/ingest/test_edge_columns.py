"""Keys, labels and splits of edges."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from partition_ops.chunked.metadata import load_metadata
from partition_ops.errors import InvalidInputError
from partition_ops.storage import open_store
from tests.tables import contents, edges, feature, ingest, write_csv

GRAPH = """\
graph_name: bank
nodes: {account: }
edges:
  account:pays:account:
    table: payments.csv
    src: payer
    dst: payee
    key: id
    features: {amount: }
    time: at
    label: fraud
    split: {time: at, val: 2024-01-03, test: '2024-01-04 12:00:00'}
"""
PAYMENTS = [
    {"id": "007", "payer": "b", "payee": "a", "amount": 5.5, "at": "2024-01-01 10:00:00", "fraud": "no"},
    {"id": "7", "payer": "a", "payee": "b", "amount": 7.0, "at": "2024-01-02 23:59:59", "fraud": "yes"},
    {"id": "x1", "payer": "c", "payee": "a", "amount": 1.0, "at": "2024-01-03 00:00:00", "fraud": "no"},
    {"id": "x2", "payer": "a", "payee": "c", "amount": 2.5, "at": "2024-01-04 12:00:00", "fraud": "yes"},
    {"id": "x3", "payer": "c", "payee": "b", "amount": 2.5, "at": None, "fraud": None},
]
NAME = "account:pays:account"


def write_bank(folder: Path, graph: str = GRAPH, rows: list[dict[str, Any]] | None = None) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    write_csv(folder / "payments.csv", rows or PAYMENTS)
    (folder / "graph.yaml").write_text(graph.replace("    time: at\n", ""))
    return folder


def test_edges_have_keys_labels_and_splits(tmp_path: Path) -> None:
    ingest(write_bank(tmp_path / "bank"), tmp_path / "graph")
    graph = tmp_path / "graph"
    assert edges(graph, NAME) == [(0, 1), (0, 2), (1, 0), (2, 0), (2, 1)]
    keys = pq.read_table(graph / f"edge_ids/{NAME}-0.parquet")
    assert keys.to_pydict() == {"orig_id": [0, 1, 2, 3, 4], "key": ["7", "x2", "007", "x1", "x3"]}
    assert json.loads((graph / "metadata.json").read_text())["edge_ids"][NAME]["column"] == "key"
    assert feature(graph, NAME, "label", edges=True).tolist() == [1, 1, 0, 0, -1]
    masks = {
        part: feature(graph, NAME, f"{part}_mask", edges=True).tolist() for part in ("train", "val", "test")
    }
    assert masks == {
        "train": [True, False, True, False, False],
        "val": [False, False, False, True, False],
        "test": [False, True, False, False, False],  # from the moment on that is named; x3 has no time
    }


def test_keys_of_edges_are_checked_once_for_all_labels(tmp_path: Path) -> None:
    labels = "on_defect: {edge_keys: warn}\n    labels: {size: {column: amount, task: regression}}\n    label"
    graph = GRAPH.replace("label", labels).replace("key: id", "key: payer")
    ingest(write_bank(tmp_path / "bank", graph), tmp_path / "graph")
    findings = json.loads((tmp_path / "graph/ingest.json").read_text())["findings"]
    assert [one["check"] for one in findings].count("edge_keys") == 1
    assert feature(tmp_path / "graph", NAME, "label_size", edges=True).tolist() == [7.0, 2.5, 5.5, 1.0, 2.5]
    assert len(pq.read_table(tmp_path / f"graph/edge_ids/{NAME}-0.parquet")) == len(PAYMENTS)


@pytest.mark.parametrize("with_key", [True, False])
def test_shares_of_edges_do_not_depend_on_the_order(tmp_path: Path, with_key: bool) -> None:
    rows = [
        {
            "id": f"p{i}",
            "payer": f"a{i % 50}",
            "payee": f"a{i * 7 % 60}",
            "amount": 1.0,
            "at": "",
            "fraud": "",
        }
        for i in range(2000)
    ]
    graph = "\n".join(line for line in GRAPH.split("\n") if "label" not in line)
    graph = graph.replace(
        "{time: at, val: 2024-01-03, test: '2024-01-04 12:00:00'}", "{shares: [0.8, 0.1, 0.1]}"
    )
    if not with_key:
        graph = graph.replace("    key: id\n", "").replace("    features: {amount: }\n", "")
    found = []
    for name, order in (("a", rows), ("b", rows[::-1])):
        ingest(write_bank(tmp_path / name, graph, order), tmp_path / f"graph {name}")
        found.append(feature(tmp_path / f"graph {name}", NAME, "train_mask", edges=True))
    assert (found[0] == found[1]).all() and 1450 < found[0].sum() < 1750
    pairs: dict[tuple[int, int], set[bool]] = {}
    for pair, train in zip(edges(tmp_path / "graph a", NAME), found[0].tolist(), strict=True):
        pairs.setdefault(pair, set()).add(train)
    assert with_key or all(len(parts) == 1 for parts in pairs.values())  # parallel edges are in one part


@pytest.mark.parametrize(
    ("change", "rows", "message"),
    [
        (("key: id", "key: payer"), PAYMENTS, "2 rows .* another row has: payer 'a' in payments.csv, row 1"),
        (("val: 2024-01-03", "val: 2025-01-03"), PAYMENTS, "'val' begins after 'test'"),
        (("val: 2024-01-03", "val: soon"), PAYMENTS, "begins at what is no time.*'soon'"),
        (("val: 2024-01-03", "train: [a]"), PAYMENTS, "'time' needs 'val', 'test' or both"),
        (("label", "reverse: pays\n    label"), PAYMENTS, "would share key, label and split"),
        (("label", "reverse: 'a:b'\n    label"), PAYMENTS, "reverse.*'a:b'"),
        (
            ("time: at, val: 2024-01-03", "column: id, val: 7"),
            PAYMENTS,
            "are lists of values, unless there is",
        ),
    ],
)
def test_messages(tmp_path: Path, change: tuple[str, str], rows: Any, message: str) -> None:
    with pytest.raises(InvalidInputError, match=f"(?s){message}"):
        ingest(write_bank(tmp_path / "bank", GRAPH.replace(*change), rows), tmp_path / "graph")


@pytest.mark.parametrize("use", ["time: at", "split: {time: at, val: 2024-01-03}"])
def test_only_times_that_are_none_are_shown(tmp_path: Path, use: str) -> None:
    rows = [{**PAYMENTS[0], "at": "2024-01-01"}, {**PAYMENTS[1], "at": "2024-13-45"}]
    (tmp_path / "graph.yaml").write_text(
        "graph_name: bank\nnodes: {account: }\nedges: {account:pays:account:"
        f" {{table: payments.csv, src: payer, dst: payee, {use}}}}}"
    )
    write_csv(tmp_path / "payments.csv", rows)
    with pytest.raises(InvalidInputError, match="the column 'at' has text") as refused:
        ingest(tmp_path, tmp_path / "graph")
    assert refused.value.found == ["payer 'a', payee 'b', at '2024-13-45' in payments.csv, row 1"]


@pytest.mark.parametrize(("reverse", "name"), [("true", "rev_pays"), ("paid_by", "paid_by")])
def test_reverse_edges_are_named_and_not_written(tmp_path: Path, reverse: str, name: str) -> None:
    graph = GRAPH.replace("    label", f"    reverse: {reverse}\n    label")
    ingest(write_bank(tmp_path / "bank", graph), tmp_path / "graph")
    ingest(write_bank(tmp_path / "plain"), tmp_path / "without")
    document = json.loads((tmp_path / "graph/metadata.json").read_text())
    assert document["reverse_edges"] == {NAME: f"account:{name}:account"} and document["edge_type"] == [NAME]
    with open_store(str(tmp_path / "graph")) as source:
        metadata = load_metadata(source)
    assert [str(one) for one in metadata.edge_types] == [NAME, f"account:{name}:account"]
    assert [one.name for one in metadata.edge_features if one.type_name != NAME] == ["amount"]
    files = {name for name in contents(tmp_path / "graph") if not name.endswith(".json")}
    assert files == {name for name in contents(tmp_path / "without") if not name.endswith(".json")}


def test_the_option_adds_reverse_edges(tmp_path: Path) -> None:
    ingest(write_bank(tmp_path / "bank"), tmp_path / "graph", reverse_edges=True)
    document = json.loads((tmp_path / "graph/metadata.json").read_text())
    assert document["reverse_edges"] == {NAME: "account:rev_pays:account"}


def test_reverse_edges_without_a_label_can_be_of_the_same_type(tmp_path: Path) -> None:
    lines = [one for one in GRAPH.split("\n") if not one.startswith(("    label", "    split", "    key"))]
    ingest(write_bank(tmp_path / "bank", "\n".join(lines) + "    reverse: pays\n"), tmp_path / "graph")
    with open_store(str(tmp_path / "graph")) as source:
        assert load_metadata(source).num_edges == (10,)


NEGATIVES = """\
    negatives:
      table: none.csv
      split: {shares: [0.5, 0.5, 0]}
"""
PAIRS = [{"payer": f"{'abc'[i % 3]}", "payee": f"{'cba'[i * 7 % 3]}"} for i in range(100)]


def test_negatives_are_pairs_of_nodes_in_the_same_order_for_any_order_of_rows(tmp_path: Path) -> None:
    for name, rows in (("one", PAIRS), ("other", PAIRS[::-1])):
        bank = write_bank(tmp_path / name, GRAPH + NEGATIVES)
        write_csv(bank / "none.csv", rows)
        ingest(bank, tmp_path / f"graph of {name}")
    graph = tmp_path / "graph of one"
    assert contents(graph) == contents(tmp_path / "graph of other")
    found = pq.read_table(graph / f"negatives/{NAME}-0.parquet").to_pydict()
    wanted = sorted(("abc".index(one["payer"]), "abc".index(one["payee"])) for one in PAIRS)
    assert [*zip(found["src"], found["dst"], strict=True)] == wanted
    masks = [*zip(found["train_mask"], found["val_mask"], found["test_mask"], strict=True)]
    assert {*masks} == {(True, False, False), (False, True, False)}
    assert edges(graph, NAME) == [(0, 1), (0, 2), (1, 0), (2, 0), (2, 1)]
    assert json.loads((graph / "ingest.json").read_text())["edge_types"][NAME]["negatives"] == 100


def test_negatives_without_a_node_are_rejected_or_left_out(tmp_path: Path) -> None:
    bank = write_bank(tmp_path / "bank", GRAPH.replace("account: ", "account: {table: all.csv, key: id}"))
    write_csv(bank / "all.csv", [{"id": one} for one in "abc"])
    write_csv(bank / "none.csv", [*PAIRS, {"payer": "a", "payee": "z"}])
    graph, without = bank / "graph.yaml", NEGATIVES.replace("split: {shares: [0.5, 0.5, 0]}", "")
    graph.write_text(graph.read_text() + without)
    with pytest.raises(
        InvalidInputError, match=r"\(negatives of 'account:pays:account'\).*'z' in none.csv, row 100"
    ):
        ingest(bank, tmp_path / "graph")
    graph.write_text(graph.read_text() + "      on_defect: {absent_keys: drop}\n")
    ingest(bank, tmp_path / "graph")
    negatives = pq.read_table(tmp_path / f"graph/negatives/{NAME}-0.parquet")
    assert negatives.column_names == ["src", "dst"] and len(negatives) == 100
    graph.write_text(
        graph.read_text().replace("{absent_keys: drop}", "{absent_keys: drop, false_negatives: fail}")
    )
    with pytest.raises(
        InvalidInputError, match=r"none.csv \(negatives of .*\) that payments.csv has as an edge: 'a' to 'c'"
    ):
        ingest(bank, tmp_path / "graph")
