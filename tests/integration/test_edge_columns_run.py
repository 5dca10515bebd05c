"""Keys, labels and splits of edges through a whole run, to training and back to the keys."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import yaml

import partition_ops
from partition_ops.system.dgl_import import import_dgl
from tests.command_line import call
from tests.tables import write_csv
from tests.unit.stages.ingest.test_edge_columns import GRAPH, NAME, write_bank

NEGATIVES = """\
    negatives:
      table: none.csv
      src: a
      dst: b
      split: {column: part, train: [fit], val: [eval]}
"""


def test_results_for_edges_come_back_by_their_keys(tmp_path: Path) -> None:
    # a row of edges can be found by its amount
    rows = [
        {"id": f"p{i}", "payer": f"a{i % 40}", "payee": f"a{i * 7 % 41}", "amount": i + 0.5}
        | {"at": f"2024-01-0{1 + i % 5} 00:00:00", "fraud": ("no", "yes")[i % 2]}
        for i in range(400)
    ]
    rows = [*{(row["payer"], row["payee"]): row for row in rows if row["payer"] != row["payee"]}.values()]
    graph = write_bank(tmp_path / "bank", GRAPH + NEGATIVES, rows) / "graph.yaml"
    others = [
        {"a": f"a{i % 40}", "b": f"a{i * 11 % 41}", "part": ("fit", "eval")[i % 3 == 0]} for i in range(99)
    ]
    write_csv(graph.parent / "none.csv", others)
    out = tmp_path / "out"
    formats = ("dgl", "graphbolt-dataset", "graphstorm", "pyg")
    partition_ops.run(graph, out, num_parts=2, engine="random", formats=formats, ignore_estimate=True)
    report = partition_ops.verify(graph, out, tables=True)
    assert report.passed, report.failed

    load = import_dgl().distributed.load_partition
    parts = [load(str(out / "partitions/bank.json"), part) for part in range(2)]
    amounts = np.concatenate([part[2][f"{NAME}/amount"].numpy() for part in parts])
    train = np.concatenate([part[2][f"{NAME}/train_mask"].numpy() for part in parts]).astype(bool)
    wanted = {row["amount"]: row for row in rows}
    days = np.array([int(wanted[float(one)]["at"][9]) for one in amounts])
    assert len(amounts) == len(rows) and (train == (days < 3)).all()

    np.save(tmp_path / "scores.npy", amounts)  # a prediction for each edge, by new ID
    where = ["--edge-type", NAME, "--input", tmp_path / "scores.npy", "--output", tmp_path / "named.parquet"]
    done = call("idmap", "restore", out, *where, "--ids-from", graph)
    assert done.returncode == 0, done.stderr
    named = pq.read_table(tmp_path / "named.parquet").to_pydict()
    assert dict(zip(named["id"], named["value"], strict=True)) == {row["id"]: row["amount"] for row in rows}

    dataset = out / "formats/graphbolt-dataset/preprocessed"
    task, with_negatives = yaml.safe_load((dataset / "metadata.yaml").read_text())["tasks"]
    (entry,) = task["train_set"]
    pairs, labels = (np.load(dataset.parent / one["path"]) for one in entry["data"])
    assert task["name"] == "link_prediction" and len(pairs) == len(labels) == train.sum()

    (entry,) = with_negatives["train_set"]
    both, is_edge = (np.load(dataset.parent / one["path"]) for one in entry["data"])
    assert (both[is_edge == 1] == pairs).all() and "validation_set" in with_negatives
    keys = pq.read_table(out / "ingest/node_ids/account-0.parquet")["key"].to_pylist()
    named_pairs = sorted((keys[a], keys[b]) for a, b in both[is_edge == 0])
    assert named_pairs == sorted((one["a"], one["b"]) for one in others if one["part"] == "fit")

    negatives = pq.read_table(out / f"idmap/negatives/{NAME}.parquet").to_pandas()
    new_to_orig = pq.read_table(out / "idmap/nodes/account.parquet")["orig_id"].to_numpy()
    assert (new_to_orig[negatives.src_type_new_id] == negatives.src_orig_id).all()
    assert (new_to_orig[negatives.dst_type_new_id] == negatives.dst_orig_id).all()
    assert negatives.train_mask.sum() == 66 and negatives.val_mask.sum() == 33

    path = out / f"idmap/negatives/{NAME}.parquet"
    pq.write_table(pq.read_table(path).slice(1), path)  # damage is found
    failed = {one.name for one in partition_ops.verify(graph, out).failed}
    assert failed == {"negatives", "manifest-artifacts", "graphbolt-dataset"}
