"""Edge cut, balance, replication and sizes, as JSON and as a page."""

from __future__ import annotations

from typing import Any

from partition_ops import artifacts
from partition_ops.config import QualityConfig
from partition_ops.documents import check_document
from partition_ops.graph.metadata import load_metadata
from partition_ops.progress import Progress
from partition_ops.storage import Store
from partition_ops.tasks import StageResult, Task, read_record, run_task

REPORT_VERSION = 1
SUMMED = {"convert-scatter": "scatter", "convert-part": "gather"}  # what there are many of, then a number
STAGES = ("validate", "schema", "prepare", "partition", "scatter", "gather", "idmap")
Stats = dict[str, Any]


def report_quality(
    config: QualityConfig, source: Store, destination: Store, *, progress: Progress | None = None
) -> StageResult:
    """Write ``quality/report.json`` and ``quality/report.html``.

    The edge cut counts the edges of the input whose ends are in two partitions. A type's imbalance is its
    largest number of nodes in one partition over its ideal share. The replication factor is the number of
    inner and halo nodes of all partitions over the number of nodes; the communication volume is the
    number of halo nodes: feature rows that are fetched from elsewhere to compute one layer.

    Args:
        config: Options.
        source: Root of the input graph; only its ``metadata.json`` is read.
        destination: Root of the run, where every partition has been converted.
        progress: Not used, the stage takes no time.

    Returns:
        Edge cut, replication factor and worst imbalance.

    Raises:
        InvalidInputError: A partition is missing.
    """
    metadata = load_metadata(source, graph_name=config.graph_name)
    read_record(destination, "convert-config")  # says so where convert has not been done
    book = destination.read_json(artifacts.partition_config(metadata.graph_name))
    parts = range(book["num_parts"])

    def work(task: Task) -> dict[str, Any]:
        from partition_ops.quality.page import quality_page, time_chart  # matplotlib takes a while to import

        stats = [_read_stats(destination, part) for part in parts]
        report = _report(metadata.graph_name, stats, [_bytes(destination, part) for part in parts])
        task.write_json(artifacts.QUALITY_REPORT, report)
        page = quality_page(report, f"../{artifacts.TIMES}")
        task.wrote(destination.write_bytes(artifacts.QUALITY_PAGE, page.encode()))
        times = time_chart(_seconds_by_stage(destination))  # no artifact: the next run has others
        destination.write_bytes(artifacts.TIMES, times.encode())
        return {
            "edge_cut": report["edge_cut"]["fraction"],
            "replication_factor": report["replication_factor"],
            "worst_imbalance": max(entry["imbalance"] for entry in report["node_types"].values()),
        }

    after = ["convert-config", *(f"convert-part{part}" for part in parts)]
    return run_task("quality", destination, options=config.options(), after=after, work=work)


def _read_stats(destination: Store, part: int) -> Stats:
    key = artifacts.partition_stats(part)
    stats: Stats = destination.read_json(key)
    check_document(stats, "partition_stats", where=destination.uri_of(key))
    return stats


def _bytes(destination: Store, part: int) -> int:
    found = [destination.stat(artifacts.partition_file(part, name)) for name in artifacts.PARTITION_FILES]
    return sum(entry.size for entry in found if entry is not None)


def _report(graph_name: str, stats: list[Stats], sizes: list[int]) -> Stats:
    edges = sum(sum(part["edges"].values()) for part in stats)
    cut = sum(sum(part["cut_edges"].values()) for part in stats)
    inner = sum(sum(part["inner_nodes"].values()) for part in stats)
    halo = sum(sum(part["halo_nodes"].values()) for part in stats)
    return {
        "version": REPORT_VERSION,
        "graph_name": graph_name,
        "num_parts": len(stats),
        "num_nodes": inner,
        "num_edges": edges,
        "edge_cut": {"edges": cut, "fraction": _share(cut, edges)},
        "replication_factor": _share(inner + halo, inner, of_nothing=1.0),
        "communication_volume": halo,
        "node_types": {name: _node_type(name, stats) for name in stats[0]["inner_nodes"]},
        "edge_types": {name: _edge_type(name, stats) for name in stats[0]["edges"]},
        "partitions": [
            {
                "part": part["part"],
                "inner_nodes": sum(part["inner_nodes"].values()),
                "halo_nodes": sum(part["halo_nodes"].values()),
                "edges": sum(part["edges"].values()),
                "cut_edges": sum(part["cut_edges"].values()),
                "bytes": size,
            }
            for part, size in zip(stats, sizes, strict=True)
        ],
        **({"degrees": _degrees(stats)} if all("nodes_by_degree" in part for part in stats) else {}),
    }


def _degrees(stats: list[Stats]) -> list[Stats]:
    """By the number of bits of the degree: its range, nodes, and partitions that have one of them."""
    columns = (
        zip(*(part["nodes_by_degree"][kind] for part in stats), strict=True) for kind in ("inner", "halo")
    )
    rows = [
        {
            "least": (1 << bits) >> 1,
            "most": (1 << bits) - 1,
            "nodes": sum(inner),
            "replication_factor": _share(sum(inner) + sum(halo), sum(inner), of_nothing=1.0),
        }
        for bits, (inner, halo) in enumerate(zip(*columns, strict=True))
    ]
    return [row for row in rows if row["nodes"]]


def _seconds_by_stage(destination: Store) -> dict[str, float]:
    """Seconds of the tasks done so far; scatter and gather are sums over their tasks."""
    found: dict[str, float] = {}
    for entry in destination.list(f"{artifacts.RECORDS}/"):
        task, suffix = entry.key.removeprefix(f"{artifacts.RECORDS}/").rsplit(".", 1)
        if suffix != "json":
            continue
        name = SUMMED.get(task.rstrip("0123456789"), task)
        found[name] = found.get(name, 0.0) + destination.read_json(entry.key)["seconds"]
    return {name: found[name] for name in STAGES if name in found}


def _node_type(name: str, stats: list[Stats]) -> Stats:
    per_part = [part["inner_nodes"][name] for part in stats]
    return {
        "per_part": per_part,
        "halo_per_part": [part["halo_nodes"][name] for part in stats],
        "imbalance": _imbalance(per_part),
    }


def _edge_type(name: str, stats: list[Stats]) -> Stats:
    per_part = [part["edges"][name] for part in stats]
    cut = sum(part["cut_edges"][name] for part in stats)
    return {
        "per_part": per_part,
        "cut_edges": cut,
        "cut_fraction": _share(cut, sum(per_part)),
        "imbalance": _imbalance(per_part),
    }


def _imbalance(per_part: list[int]) -> float:
    return _share(max(per_part) * len(per_part), sum(per_part), of_nothing=1.0)


def _share(part: int, whole: int, *, of_nothing: float = 0.0) -> float:
    return round(part / whole, 6) if whole else of_nothing
