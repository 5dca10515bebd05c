"""The first task of a conversion: group the chunks that are scattered together, and what shares a task."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from partition_ops.artifacts import layout
from partition_ops.artifacts.book import node_counts
from partition_ops.artifacts.records import forget_task, read_record, stored_objects
from partition_ops.artifacts.tasks import ArtifactWriter, Counters, StageResult
from partition_ops.artifacts.write_access import check_apart
from partition_ops.chunked.edges import EdgeReader
from partition_ops.errors import some_of
from partition_ops.stages.convert.context import Conversion
from partition_ops.stages.convert.feature_buckets import scattered_chunks
from partition_ops.stages.convert.ranges import even_ranges, gather_ranges
from partition_ops.storage import Store

PLAN_VERSION = 1
SHOWN = 10  # features in a message
logger = logging.getLogger("partition_ops")


@dataclass(frozen=True)
class Plan:
    """The groups of chunks."""

    # for each group of edges, the half-open range of its chunks among all edge chunks
    edges: list[tuple[int, int]]
    # for each group of features, numbered after those of edges, its chunks; see `scattered_chunks`
    features: list[list[tuple[int, int]]]
    starts: list[int]  # type-wise ID of the first edge of every edge chunk

    @property
    def groups(self) -> list[int]:
        return list(range(len(self.edges) + len(self.features)))

    @property
    def edge_groups(self) -> list[int]:
        return self.groups[: len(self.edges)]

    @property
    def feature_groups(self) -> list[int]:
        return self.groups[len(self.edges) :]


def make_plan(conversion: Conversion) -> StageResult:
    """Write ``scratch/convert/plan.json`` and remove the partitions of an earlier assignment.

    Partitions of this assignment stay, and so does the manifest.

    Consecutive chunks of edges form groups of about the same size: at most 16, and only one if the input has
    less than 64 MiB of edges. A task then scatters each group. Chunks of node features that every partition
    would have to fetch or decode again form groups in the same way.

    Returns:
        The numbers of groups and of partitions.

    Raises:
        InvalidInputError: A file is missing, or the assignment does not fit the graph.
    """
    metadata = conversion.metadata
    check_apart(conversion.source, conversion.destination, metadata)

    def work(writer: ArtifactWriter) -> Counters:
        _ = conversion.order  # rejects an assignment that does not fit
        warn_of_servers(conversion)
        _forget_earlier(conversion)
        sizes = {entry.key: entry.size for entry in conversion.inputs}
        edges = even_ranges([sizes[key] for data in metadata.edges for key in data.files])
        chunks = scattered_chunks(conversion)
        keys = [metadata.node_features[place].data.files[chunk] for place, chunk in chunks]
        features = [chunks[begin:end] for begin, end in even_ranges([sizes[key] for key in keys])]
        # if the metadata lack the counts, the rows of chunks are counted here and not in every group
        starts = list(EdgeReader(conversion.source, metadata).chunk_starts.values())
        plan = {"version": PLAN_VERSION, "edges": edges, "features": features, "starts": starts}
        writer.write_json(layout.CONVERT_PLAN, plan)
        return {"groups": len(edges) + len(features), "num_parts": conversion.num_parts}

    return conversion.plan_task(work).run()


def warn_of_servers(conversion: Conversion) -> None:
    """Log a warning about features of which a partition has no row, if servers of a format fail on them.

    An edge belongs to the partition of its destination: a partition without nodes of that type has no such
    edges. Which other partitions have none is known later, see `warn_of_edges`.
    """
    metadata = conversion.metadata
    counts = node_counts(metadata, conversion.order.assignment)
    ends = {str(kind): kind.dst for kind in metadata.edge_types}
    kinds = [(f, f.type_name) for f in metadata.node_features]
    kinds += [(f, ends[f.type_name]) for f in metadata.edge_features]
    found = [f"{f.type_name}/{f.name}" for f, node_type in kinds if 0 in counts[node_type]]
    _warn(conversion, found, "some partitions have no row")


def warn_of_edges(conversion: Conversion, part: int, counts: Sequence[int]) -> None:
    """Log the warning of `warn_of_servers` about features of edges, when those of a partition are counted.

    Args:
        conversion: The conversion.
        part: The partition.
        counts: The number of its edges by type.
    """
    types = [str(kind) for kind in conversion.metadata.edge_types]
    empty = {name for name, count in zip(types, counts, strict=True) if not count}
    found = [f"{f.type_name}/{f.name}" for f in conversion.metadata.edge_features if f.type_name in empty]
    _warn(conversion, found, f"partition {part} has no row")


def _warn(conversion: Conversion, features: list[str], what: str) -> None:
    formats = [form.name for form in conversion.formats if form.needs_rows]
    if features and formats:
        logger.warning(
            "DGL's servers fail on features of which %s: %s. If servers are to load the format %s, leave"
            " these features out of metadata.json, or make fewer partitions.",
            what,
            some_of(features, SHOWN),
            " or ".join(formats),
        )


def read_plan(destination: Store) -> Plan:
    """Read the plan.

    Raises:
        InvalidInputError: It has not been made.
    """
    read_record(destination, layout.PLAN_TASK)  # says so if it has not been made
    document = destination.read_json(layout.CONVERT_PLAN)
    features = [[(place, chunk) for place, chunk in group] for group in document["features"]]
    return Plan([(begin, end) for begin, end in document["edges"]], features, document["starts"])


@dataclass(frozen=True)
class TaskGroups:
    """The groups of chunks, and the partitions, that share a task, and so a process, in Airflow."""

    scatters: list[list[int]]  # groups of chunks of each scatter
    gathers: list[list[int]]  # partitions of each gather


def task_groups(conversion: Conversion) -> TaskGroups:
    """Return the numbers of groups and of partitions, those that share a task together.

    A task has `GROUP_BYTES` of the input at least, if there are so many: a small graph has one scatter and
    one gather. From ``GROUP_BYTES`` for each partition on, each partition has a task of its own. Beside the
    option ``convert_tasks``, only the sizes in the record of the plan count, so that the result is the same
    until the conversion is planned again.

    Raises:
        InvalidInputError: The conversion has not been planned.
    """
    record, plan = read_record(conversion.destination, layout.PLAN_TASK), read_plan(conversion.destination)
    sizes = {entry.key: entry.size for entry in stored_objects(record)}
    metadata = conversion.metadata
    edges = [key for data in metadata.edges for key in data.files]
    keys = [edges[begin:end] for begin, end in plan.edges]
    keys += [
        [metadata.node_features[place].data.files[chunk] for place, chunk in group] for group in plan.features
    ]
    most = conversion.config.convert_tasks
    scatters = even_ranges([sum(sizes[key] for key in group) for group in keys], most or len(keys))
    gathers = gather_ranges(sum(sizes.values()), record["counters"]["num_parts"], most)
    return TaskGroups(*([list(range(*one)) for one in ranges] for ranges in (scatters, gathers)))


def _forget_earlier(conversion: Conversion) -> None:
    """Remove all groups, also those beyond the new number of groups, and the partitions that are out of date.

    If all partitions are, the book and the config files of the formats go first.
    """
    destination = conversion.destination
    for group in _numbers(destination, layout.SCATTER_TASK):
        forget_task(destination, f"{layout.SCATTER_TASK}{group}")
    parts = {
        part: part.isdecimal()
        and int(part) < conversion.num_parts
        and conversion.gather_task(int(part)).status().done
        for part in _numbers(destination, layout.PART_TASK)
    }
    if not any(parts.values()):
        forget_task(destination, layout.CONFIG_TASK)
    for part, stays in parts.items():
        if not stays:
            forget_task(destination, f"{layout.PART_TASK}{part}")


def _numbers(destination: Store, task: str) -> list[str]:
    """Return the numbers, as text, of the tasks of a kind that have left records."""
    prefix = layout.record(task).removesuffix(".json")
    return [entry.key.removeprefix(prefix).removesuffix(".json") for entry in destination.list(prefix)]
