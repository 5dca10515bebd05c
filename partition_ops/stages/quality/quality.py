"""Edge cut, balance, replication and sizes, as JSON and as a page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from partition_ops.artifacts import layout
from partition_ops.artifacts.book import Book, read_all_stats, read_book
from partition_ops.artifacts.documents import read_document
from partition_ops.artifacts.records import (
    config_task,
    conversion_tasks,
    forget_task,
    part_artifacts,
    read_record,
    stored_objects,
)
from partition_ops.artifacts.run_figures import relative_shares, seconds_by_stage, slowest_trainer
from partition_ops.artifacts.tasks import ArtifactWriter, StageResult, Task, input_objects
from partition_ops.artifacts.verified_run import read_migration
from partition_ops.chunked.metadata import load_metadata
from partition_ops.errors import InvalidInputError
from partition_ops.formats.format import reading_format
from partition_ops.stages.quality.history import (
    Entry,
    as_input,
    earlier_entries,
    history_document,
    kept_entries,
)
from partition_ops.stages.quality.options import QualityConfig
from partition_ops.stages.quality.page import quality_page, time_chart
from partition_ops.stages.quality.training import training_report
from partition_ops.stages.quality.training_section import speed_chart
from partition_ops.storage import Store, StoredObject
from partition_ops.system.progress import Progress

REPORT_VERSION = 1
PROBED = ("options", "partitions", "total")  # of quality/probe.json
NOT_FIGURES = ("version", "previous")  # of assignment/migration.json
FULLEST = {"nodes": "inner_nodes", "edges": "edges", "bytes": "bytes"}  # and their names in the report
Stats = dict[str, Any]


def report_quality(
    config: QualityConfig,
    source: Store,
    destination: Store,
    *,
    previous: Store | None = None,
    progress: Progress | None = None,
) -> StageResult:
    """Write ``quality/report.json``, ``quality/history.json`` and ``quality/report.html``.

    The edge cut counts the edges of the input whose ends are in two partitions. A type's imbalance is its
    largest number of nodes in one partition over its ideal share; ``balance`` has the lightest and the
    heaviest partition of every type and of all nodes. The replication factor is the number of
    inner and halo nodes of all partitions over the number of nodes; the communication volume is the
    number of halo nodes: feature rows that are fetched from elsewhere to compute one layer. ``training`` has
    the rows that trainers are expected to read from each other; see `training_report`. If the partitions
    have been probed, the report says what trainers fetch; in an incremental run, what has moved.

    Args:
        config: Options.
        source: Root of the input graph: its edges, and the masks of the train nodes.
        destination: Root of the run, where every partition has been converted.
        previous: Root of the finished run before this one, whose history goes on.
        progress: Not used.

    Returns:
        Edge cut, replication factor, worst imbalance, and the rows a batch of the slowest trainer.

    Raises:
        InvalidInputError: A partition is missing, or a file of the input.
        UsageError: As of `training_report`.

    Peak memory and time: those of `training_report`.
    """
    metadata = load_metadata(source, graph_name=config.graph_name)
    read_record(destination, config_task(destination))  # says so if convert has not been done
    earlier = earlier_entries(previous) if previous is not None else []
    book = read_book(destination, metadata.graph_name)
    training = partial(training_report, config.sampling, source, metadata, destination, book.num_hops)
    is_text = config_task(destination) == layout.TEXT_TASK
    files = () if is_text else input_objects(source, metadata)  # publish refuses files that changed meanwhile
    return _write_report(config, book, destination, earlier, training, files)


def renew_report(config: QualityConfig, graph_name: str, destination: Store) -> StageResult:
    """Write the report of a run again, from the run alone."""
    book, kept = read_book(destination, graph_name), kept_entries(destination)
    before = read_document(destination, layout.QUALITY_REPORT, "quality_report")
    recorded = destination.exists(layout.record("quality"))
    read = stored_objects(read_record(destination, "quality")) if recorded else []
    files = [one for one in read if one.key != layout.QUALITY_HISTORY]
    return _write_report(config, book, destination, kept, lambda: before.get("training"), files)


def _write_report(
    config: QualityConfig,
    book: Book,
    destination: Store,
    earlier: list[Entry],
    training: Callable[[], Stats | None],
    files: Sequence[StoredObject],
) -> StageResult:
    """Write the report.

    Args:
        config: Options.
        book: The partitions.
        destination: Root of the run.
        earlier: Entries of the runs before.
        training: Returns the figures of training; reports of version 0.2.0 have none.
        files: The files of the input, of which it makes them.
    """
    parts = range(book.num_parts)
    migration = read_migration(destination)
    probed = ["probe"] if _is_probed(destination) else []

    def work(task: ArtifactWriter) -> dict[str, Any]:
        stats = read_all_stats(destination, book.num_parts)
        form = reading_format(book)
        sizes = [_bytes(destination, part, [form.part_folder(part)]) for part in parts]
        report = _report(book.graph_name, stats, sizes)
        report["balance"] = {
            **_balance(stats, _whole_nodes(destination)),
            "fullest": {kind: _fullest(report["partitions"], name) for kind, name in FULLEST.items()},
        }
        expected = training()
        if expected is not None:
            report["training"] = expected
        if probed:
            document = read_document(destination, layout.QUALITY_PROBE, "probe")
            report["probe"] = {key: document[key] for key in PROBED}
        if migration is not None:
            report["migration"] = {key: migration[key] for key in migration if key not in NOT_FIGURES}
        task.write_json(layout.QUALITY_REPORT, report)
        history = history_document(report, earlier)
        task.write_json(layout.QUALITY_HISTORY, history)
        page = quality_page(report, history, f"../{layout.TIMES}", f"../{layout.SPEEDS}")
        task.wrote(task.destination.write_bytes(layout.QUALITY_PAGE, page.encode()))
        times = time_chart(seconds_by_stage(destination))  # no artifact: the next run has others
        task.destination.write_bytes(layout.TIMES, times.encode())
        if probed:
            speeds = read_record(destination, "probe")["counters"]["batches_per_second_by_partition"]
            task.destination.write_bytes(layout.SPEEDS, speed_chart(speeds).encode())
        return {
            "edge_cut": report["edge_cut"]["fraction"],
            "replication_factor": report["replication_factor"],
            "worst_imbalance": max(entry["imbalance"] for entry in report["node_types"].values()),
            **{name: value for name, value in slowest_trainer(report).items() if value is not None},
        }

    return Task(
        "quality",
        destination,
        work,
        options=config.options(),
        inputs=[*files, *([as_input(earlier)] if earlier else [])],
        after=[*conversion_tasks(destination, len(parts)), *probed, *(["partition"] if migration else [])],
        outputs=[layout.QUALITY_REPORT, layout.QUALITY_HISTORY, layout.QUALITY_PAGE],
    ).run()


def _is_probed(destination: Store) -> bool:
    """Return whether the partitions have been probed; forget the figures of other partitions."""
    if not destination.exists(layout.record("probe")):
        return False
    try:
        fits = Task.recorded(destination, "probe").status().done
    except InvalidInputError:  # a broken record
        fits = False
    if not fits:
        forget_task(destination, "probe")
    return fits


def _bytes(destination: Store, part: int, folders: list[str]) -> int:
    """Return the size of a partition in all output formats."""
    written = part_artifacts(destination, part, folders)
    return sum(entry["size"] for entry in written if entry["key"] != layout.partition_stats(part))


def _report(graph_name: str, stats: list[Stats], sizes: list[int]) -> Stats:
    edges = sum(sum(part["edges"].values()) for part in stats)
    cut = sum(sum(part["cut_edges"].values()) for part in stats)
    inner = sum(sum(part["inner_nodes"].values()) for part in stats)
    halo = sum(sum(part["halo_nodes"].values()) for part in stats)
    notes = _notes(stats)
    return {
        "version": REPORT_VERSION,
        "graph_name": graph_name,
        "num_parts": len(stats),
        "num_nodes": inner,
        "num_edges": edges,
        **({"notes": notes} if notes else {}),
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


def _balance(stats: list[Stats], whole_nodes: dict[str, float]) -> Stats:
    """Return the lightest and the heaviest partition over an equal share, of all nodes and of each type.

    Args:
        stats: Of each partition.
        whole_nodes: By node type, the largest share of a partition if that is above the tolerance.
    """
    by_type = {name: [part["inner_nodes"][name] for part in stats] for name in stats[0]["inner_nodes"]}
    more = {name: {"whole_nodes": share} for name, share in whole_nodes.items() if name in by_type}
    return {
        **_extremes([sum(part["inner_nodes"].values()) for part in stats]),
        "node_types": {name: {**_extremes(counts), **more.get(name, {})} for name, counts in by_type.items()},
    }


def _extremes(per_part: list[int]) -> Stats:
    shares = relative_shares(per_part)
    return {"lightest": round(min(shares), 6), "heaviest": round(max(shares), 6)}


def _fullest(partitions: list[Stats], name: str) -> Stats:
    """Return the partition with the largest figure of a name, and its ratio to the mean."""
    shares = relative_shares([one[name] for one in partitions])
    part = shares.index(max(shares))
    return {"part": part, "ratio": round(shares[part], 6)}


def _whole_nodes(destination: Store) -> dict[str, float]:
    """Return what ``partition`` says of types with few nodes; nothing for an imported assignment."""
    try:
        found: dict[str, float] = read_record(destination, "partition")["counters"].get("whole_nodes", {})
    except InvalidInputError:  # a broken record
        return {}
    return found


def _notes(stats: list[Stats]) -> list[str]:
    """Return notes on partitions without nodes, and on types of which some partitions have no node."""
    count = len(stats)
    empty = sum(not any(part["inner_nodes"].values()) for part in stats)
    notes = [f"{empty:,} of {count:,} partitions have no nodes"] if empty else []
    for name in stats[0]["inner_nodes"]:
        nodes = [part["inner_nodes"][name] for part in stats]
        without = nodes.count(0)
        if any(nodes) and without > empty:
            notes.append(
                f"{without:,} of {count:,} partitions have no node of type {name!r}, which has {sum(nodes):,}"
            )
    return notes


def _degrees(stats: list[Stats]) -> list[Stats]:
    """Return, for each bit length of a degree: its range, nodes, and partitions that have one of them."""
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
