"""What trainers are expected to fetch, in the report, on the page and on the terminal: counted by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import partition_ops
from partition_ops.artifacts import layout
from partition_ops.artifacts.run_figures import summary
from partition_ops.cli.text_tables import quality_lines
from partition_ops.errors import UsageError
from partition_ops.options.declare import StageConfig
from partition_ops.stages.convert.convert import convert_graph
from partition_ops.stages.convert.options import ConvertConfig
from partition_ops.stages.partition.write_assignment import import_assignment
from partition_ops.stages.quality import training
from partition_ops.stages.quality.options import QualityConfig
from partition_ops.stages.quality.quality import renew_report, report_quality
from partition_ops.storage import Store, open_store
from partition_ops.system.json_documents import check_document
from partition_ops.traffic import plan
from partition_ops.traffic.options import SamplingOptions
from tests.graphs import Edges, SmallGraph, Values

ALL = SamplingOptions(fanouts=(-1,))
EDGES = Edges([0, 1, 2, 3, 0, 2], [0, 0, 0, 1, 1, 1])
FEATURE = Values("user", "feat", np.zeros((4, 3), np.float32))
PARTS = {"user": "0 0 1 1", "item": "0 1"}


def shop(*values: Values, edges: Edges = EDGES) -> SmallGraph:
    graph = {"user": 4, "item": 2}, {"user:buys:item": edges}
    return SmallGraph(*graph, name="shop", node_values=list(values))


def reported(
    folder: Path,
    graph: SmallGraph,
    sampling: SamplingOptions = ALL,
    *,
    parts: dict[str, str] | None = None,
    **options: Any,
) -> tuple[dict[str, Any], Store]:
    """Return the report of an imported assignment, by the partition of each node, and the root of the run."""
    theirs, out = open_store(str(folder / "theirs")), open_store(str(folder / "out"))
    lines = parts or PARTS
    count = 1 + max(int(part) for line in lines.values() for part in line.split())
    theirs.write_json("partition_meta.json", {"version": "1.0.0", "num_parts": count, "algo_name": "metis"})
    for name, line in lines.items():
        theirs.write_bytes(f"{name}.txt", line.replace(" ", "\n").encode() + b"\n")
    source = open_store(str(graph.write(folder / "graph")))
    import_assignment(StageConfig(), source, theirs, out)
    convert_graph(ConvertConfig(**options), source, out)
    report_quality(QualityConfig(sampling=sampling), source, out)
    report = out.read_json(layout.QUALITY_REPORT)
    check_document(report, "quality_report", where="report")
    check_document(out.read_json(layout.QUALITY_HISTORY), "history", where="history")
    return report, out


def rows(report: dict[str, Any]) -> list[float]:
    return [one["remote_rows_per_batch"] for one in report["training"]["partitions"]]


def test_the_figures_of_a_batch_with_all_neighbours(tmp_path: Path) -> None:
    """Item 0 has the users 0, 1 and, of the other partition, 2; item 1 has 3, 2 and, of the other, 0."""
    report, out = reported(tmp_path, shop(FEATURE))
    found = report["training"]
    assert found["options"] == {"train_nodes": ["item"], "fanouts": [-1], "batch_size": 1024}
    assert found["row_bytes"] == {"user": 12, "item": 0}
    each = {"seeds": 1, "batches": 1, "remote_rows_per_batch": 1.0, "remote_bytes_per_batch": 12}
    each |= {"remote_neighbour_share": 0.333333, "served_rows": 1, "served_bytes": 12}
    assert found["partitions"] == [{"part": part, **each} for part in range(2)]
    assert found["total"]["seeds"] == found["total"]["batches"] == 2
    assert found["total"]["remote_neighbour_share"] == 0.333333
    slowest = {"part": 0, "remote_rows_per_batch": 1.0, "remote_bytes_per_batch": 12, "ratio": 1.0}
    assert found["slowest"] == slowest
    assert (summary(report)["slowest_rows"], summary(report)["slowest_ratio"]) == (1.0, 1.0)
    page = out.read_bytes(layout.QUALITY_PAGE).decode()
    assert "<h2>Training</h2>" in page and "1,024 train nodes (item), with all neighbours" in page
    expected = "remote rows         1 a batch (0.00 MiB), slowest trainer; 1.000 times the mean"
    assert expected in quality_lines(report)


def test_the_slowest_trainer_is_that_with_most_rows(tmp_path: Path) -> None:
    """With item 1 in partition 0, its trainer reads users 2 and 3; the other one has no train nodes."""
    report, _ = reported(tmp_path, shop(), parts={"user": "0 0 1 1", "item": "0 0"})
    assert rows(report) == [2.0, 0.0]
    slowest = report["training"]["slowest"]
    assert (slowest["part"], slowest["ratio"]) == (0, 1.0)  # the mean of the trainers that have batches
    assert [one["served_rows"] for one in report["training"]["partitions"]] == [0, 2]
    assert report["balance"]["fullest"]["nodes"] == {"part": 0, "ratio": 1.333333}
    assert report["balance"]["fullest"]["edges"] == {"part": 0, "ratio": 2.0}
    assert "nodes 1.333, edges 2.000, bytes" in "\n".join(quality_lines(report))


def test_train_nodes_are_those_of_the_mask(tmp_path: Path) -> None:
    mask = Values("item", "mine", np.array([False, True]))
    report, _ = reported(
        tmp_path, shop(mask), SamplingOptions(train_nodes=("item:mine",), fanouts=(-1,), batch_size=7)
    )
    assert report["training"]["options"]["train_nodes"] == ["item:mine"]
    assert [one["seeds"] for one in report["training"]["partitions"]] == [0, 1]
    assert rows(report) == [0.0, 1.0]


def test_without_a_halo_trainers_read_nothing_from_each_other(tmp_path: Path) -> None:
    report, _ = reported(tmp_path, shop(), num_hops=0)
    assert rows(report) == [0.0, 0.0]
    assert report["training"]["total"]["remote_neighbour_share"] == 0


def test_one_partition(tmp_path: Path) -> None:
    report, _ = reported(tmp_path, shop(), parts={"user": "0 0 0 0", "item": "0 0"})
    assert rows(report) == [0.0]
    assert report["training"]["slowest"]["ratio"] == 1.0


def test_no_edges(tmp_path: Path) -> None:
    report, _ = reported(tmp_path, shop(edges=Edges([], [])))
    assert report["training"]["total"]["seeds"] == 6  # of all types, since none has in-edges
    assert rows(report) == [0.0, 0.0]


def test_no_train_nodes(tmp_path: Path) -> None:
    report, out = reported(tmp_path, shop(Values("item", "train_mask", np.zeros(2, np.int8))))
    assert report["training"]["slowest"] is None
    assert rows(report) == [0.0, 0.0]
    assert summary(report)["slowest_rows"] is None
    assert (
        "because there are no train nodes: item:train_mask." in out.read_bytes(layout.QUALITY_PAGE).decode()
    )
    assert "remote rows         unknown: there are no train nodes" in quality_lines(report)


def test_too_much_work_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "MOST_WORK", 11)  # 6 edges, 2 partitions, 1 layer
    report, out = reported(tmp_path, shop())
    reason = "edges times layers times partitions are 12, more than 11"
    assert report["training"]["left_out"].endswith(reason)
    assert reason in out.read_bytes(layout.QUALITY_PAGE).decode()
    assert any(line.startswith("remote rows") and reason in line for line in quality_lines(report))


def test_a_default_that_is_no_mask_is_left_out(tmp_path: Path) -> None:
    """A graph may have such a feature for a purpose of its own."""
    wide = Values("item", "train_mask", np.ones((2, 3), np.int8))
    report, _ = reported(tmp_path / "default", shop(wide))
    assert "'item/train_mask' is not a mask" in report["training"]["left_out"]
    with pytest.raises(UsageError, match="is not a mask"):
        reported(tmp_path / "named", shop(wide), SamplingOptions(train_nodes=("item",)))


def test_mapped_files_give_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sampling = SamplingOptions(fanouts=(1, 2), batch_size=1)
    report, _ = reported(tmp_path / "memory", shop(), sampling)
    monkeypatch.setattr(plan, "MEMORY_SHARE", 0.0)
    assert reported(tmp_path / "files", shop(), sampling)[0] == report


def test_other_options_make_the_report_again(tmp_path: Path) -> None:
    _, out = reported(tmp_path, shop())
    source = open_store(str(tmp_path / "graph"))
    assert report_quality(QualityConfig(sampling=ALL), source, out).skipped
    assert not report_quality(QualityConfig(), source, out).skipped
    assert out.read_json(layout.QUALITY_REPORT)["training"]["options"]["fanouts"] == [10, 10]


def test_run_makes_the_report_of_a_published_run_again(tmp_path: Path) -> None:
    graph, out = str(shop().write(tmp_path / "graph")), tmp_path / "out"

    def run(*fanouts: int) -> list[str]:
        done = partition_ops.run(graph, str(out), num_parts=2, engine="random", fanouts=fanouts)
        assert done.quality["training"]["options"]["fanouts"] == list(fanouts)
        assert (out / layout.MANIFEST).exists()
        return [result.task for result in done.tasks if not result.skipped]

    assert "quality" in run(5, 5)
    assert run(3) == ["quality", "publish"]
    assert run(3) == []


def test_wrong_options_are_rejected_before_any_work(tmp_path: Path) -> None:
    graph = str(shop(FEATURE).write(tmp_path / "graph"))
    for wanted, message in (("users", "no node type 'users'"), ("user:feat", "'user/feat' is not a mask")):
        with pytest.raises(UsageError, match=message):
            partition_ops.run(graph, str(tmp_path / "out"), num_parts=2, train_nodes=(wanted,))
    assert not (tmp_path / "out" / "validation").exists()


def test_a_renewed_report_keeps_the_figures(tmp_path: Path) -> None:
    """The verb ``probe`` renews it from the run alone."""
    report, out = reported(tmp_path, shop())
    out.delete([layout.record("quality")])
    assert not renew_report(QualityConfig(sampling=ALL), "shop", out).skipped
    assert out.read_json(layout.QUALITY_REPORT) == report


def test_wrong_train_nodes_are_wrong_use(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no node type 'papers'"):
        reported(tmp_path, shop(), SamplingOptions(train_nodes=("papers",)))
