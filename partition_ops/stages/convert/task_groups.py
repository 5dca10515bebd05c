"""Which groups of chunks, and which partitions, share a task in Airflow, where each task is a process."""

from __future__ import annotations

from dataclasses import dataclass

from partition_ops.artifacts import layout
from partition_ops.artifacts.records import read_record, stored_objects
from partition_ops.chunked.metadata import load_metadata
from partition_ops.stages.convert.options import ConvertConfig
from partition_ops.stages.convert.plan import read_plan
from partition_ops.stages.convert.ranges import even_ranges, gather_ranges
from partition_ops.storage import Store


@dataclass(frozen=True)
class TaskGroups:
    """The numbers that each task has.

    Attributes:
        scatters: Groups of chunks of each scatter.
        gathers: Partitions of each gather.
    """

    scatters: list[list[int]]
    gathers: list[list[int]]


def task_groups(config: ConvertConfig, source: Store, destination: Store) -> TaskGroups:
    """Return the numbers of groups and of partitions, those that share a task together.

    A task has `GROUP_BYTES` of the input at least, if there are so many: a small graph has one scatter and
    one gather. From ``GROUP_BYTES`` for each partition on, each partition has a task of its own. Only the
    sizes in the record of the plan count, so that the result is the same until the conversion is planned
    again.

    Args:
        config: Options.
        source: Root of the input graph; only its metadata are read.
        destination: Root of the run, where the conversion has been planned.

    Raises:
        InvalidInputError: It has not been planned.
    """
    record = read_record(destination, layout.PLAN_TASK)
    sizes = {entry.key: entry.size for entry in stored_objects(record)}
    metadata = load_metadata(source, graph_name=config.graph_name)
    plan = read_plan(destination)
    edges = [key for data in metadata.edges for key in data.files]
    keys = [edges[begin:end] for begin, end in plan.edges]
    keys += [
        [metadata.node_features[place].data.files[chunk] for place, chunk in group] for group in plan.features
    ]
    scatters = even_ranges([sum(sizes[key] for key in group) for group in keys], len(keys))
    gathers = gather_ranges(sum(sizes.values()), record["counters"]["num_parts"])
    return TaskGroups(*([list(range(*one)) for one in ranges] for ranges in (scatters, gathers)))
