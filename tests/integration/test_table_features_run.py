"""Features, several labels, relations and reverse edges of tables through whole runs, to every format."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import partition_ops
from partition_ops.system.dgl_import import import_dgl
from tests.unit.stages.ingest.test_features import ROWS, write
from tests.unit.stages.ingest.test_relations_and_files import TRIPLES, write_facts

MORE = """\
      maker: {transform: category}
      genres: {transform: multi-hot, separator: ",", missing: ""}
      vector: {separator: ",", truncate: 2, bounds: [1, 5]}
      amount: {transform: rank-gauss}
    label: maker
    split: {column: part, train: [train], val: [val], test: [test]}
    labels:
      churn: {column: churn, split: {shares: [0.5, 0.25, 0.25]}}
      income: {column: income, task: regression}
"""
SHAPES = {"x": (3,), "vector": (2,), "maker": (), "amount": (), "label_churn": (), "train_mask_churn": ()}


def test_features_and_labels_reach_every_format(tmp_path: Path) -> None:
    folder = write(tmp_path / "tables", "columns: 'f?', transform: standardise", more=MORE)
    links = [f"u{i:02},u{(i * 7 + 3) % ROWS:02}" for i in range(ROWS)]
    (folder / "links.csv").write_text("\n".join(["a,b", *links]) + "\n")
    graph = folder / "graph.yaml"
    graph.write_text(graph.read_text().replace("dst: b}", "dst: b, reverse: true}"))
    formats = ("dgl", "graphbolt-dataset", "graphstorm", "pyg")
    options = {"engine": "random", "formats": formats, "ignore_estimate": True}
    partition_ops.run(graph, tmp_path / "out", num_parts=2, **options)
    report = partition_ops.verify(graph, tmp_path / "out", tables=True)
    assert report.passed, report.failed
    load = import_dgl().distributed.load_partition
    parts = [load(str(tmp_path / "out/partitions/g.json"), part) for part in range(2)]
    for name, shape in SHAPES.items():
        rows = np.concatenate([part[1][f"user/{name}"].numpy() for part in parts])
        assert rows.shape == (ROWS, *shape), name
    assert sum(int((part[0].edata["inner_edge"] == 1).sum()) for part in parts) == 2 * ROWS


def test_relations_and_their_reverses_are_verified_against_the_tables(tmp_path: Path) -> None:
    facts = [(f"e{i % 97}", f"r{i * i % 7}", f"e{i * 7 % 89 + 100}", i / 2) for i in range(600)]
    facts = [*{fact[:3]: fact for fact in facts}.values()]
    graph = write_facts(tmp_path / "facts", facts, TRIPLES + "    reverse: not_*\n") / "graph.yaml"
    partition_ops.run(graph, tmp_path / "out", num_parts=2, engine="random", ignore_estimate=True)
    report = partition_ops.verify(graph, tmp_path / "out", tables=True)
    assert report.passed, report.failed
    assert ("entity", "not_r1", "entity") in partition_ops.PartitionBook(
        partition_ops.open_store(str(tmp_path / "out"))
    ).reverse_etypes
