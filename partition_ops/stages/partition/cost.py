"""What ``partition`` takes: an engine and its assignment."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from partition_ops.artifacts.cost import LIBRARIES, Machine, Sizes, StageEstimate, TaskEstimate
from partition_ops.errors import UsageError
from partition_ops.stages.partition.engine import TRAIN, EngineCost, find_engine, objective_of
from partition_ops.stages.partition.engines import engine_names
from partition_ops.stages.partition.mpi.options import MpiOptions
from partition_ops.stages.partition.options import PartitionConfig
from partition_ops.traffic.plan import (
    MANY_BYTES,
    MOST_WORK,
    kept_bytes,
    mapped_bytes,
    predicting_bytes,
    work,
)

WEIGHT_BYTES = 20  # of a half-edge: its weight, and what that is made from
CURVE_BYTES = 49  # of a node: its partition, and what the curve of caches takes


def cost(config: PartitionConfig, sizes: Sizes, machine: Machine) -> StageEstimate:
    """Estimate ``partition``."""
    found = _estimate(config, sizes, machine)
    if found.held <= machine.memory:
        return found
    return replace(found, remedies=tuple(_other_engines(config, sizes, machine)))


def _estimate(config: PartitionConfig, sizes: Sizes, machine: Machine) -> StageEstimate:
    chosen = find_engine(config.engine)
    engine = chosen.cost(config, sizes, machine)
    graph = sizes.prepared_bytes if chosen.needs_graph else 0
    degrees = 8 * sizes.nodes if config.balance == "edges" else 0
    assignment = (5 + len(str(config.num_parts - 1))) * sizes.nodes
    model, on_disk = _model(config, engine, sizes)
    memory = machine.base + engine.held + degrees + engine.mapped + model
    mapped = LIBRARIES + engine.mapped + on_disk
    tasks, spread_by = _ranks(config, engine, memory, mapped) if machine.workers else ((), "")
    return StageEstimate(
        memory=max((task.memory for task in tasks), default=memory),
        mapped=mapped,
        tasks=tasks,
        spread_by=spread_by,
        output=assignment,
        temporary=on_disk,
        cache=machine.fetched_back(graph + degrees + assignment),
        beside=_beside(config, sizes, machine),
        seconds=0.7 + engine.seconds,
        note=engine.note,
        warnings=engine.warnings,
    )


def _model(config: PartitionConfig, engine: EngineCost, sizes: Sizes) -> tuple[int, int]:
    """Return the bytes of the model of the traffic and of the weights of edges, and those on the disk."""
    if objective_of(config, sizes.metadata) != TRAIN:
        return 0, 0
    edges, weights = 4 * sizes.edges, WEIGHT_BYTES * sizes.half_edges if engine.weighs else 0
    on_disk = edges if edges >= MANY_BYTES else 0
    return edges + kept_bytes(sizes.metadata) + weights, on_disk


def _beside(config: PartitionConfig, sizes: Sizes, machine: Machine) -> int:
    """Return the bytes of the model of the traffic, with which `keep_traffic` works beside the next stage.

    Many edges are on the disk then.
    """
    metadata, layers = sizes.metadata, len(config.sampling.fanouts)
    if objective_of(config, metadata) != TRAIN or work(metadata, layers, sizes.num_parts) > MOST_WORK:
        return 0
    if mapped_bytes(metadata, layers, machine.memory):
        return 0
    edges = min(4 * sizes.edges, MANY_BYTES)
    return edges + CURVE_BYTES * sizes.nodes + predicting_bytes(metadata, layers, sizes.num_parts)


def _ranks(
    config: PartitionConfig, engine: EngineCost, memory: int, mapped: int
) -> tuple[tuple[TaskEstimate, ...], str]:
    """Return the ranks of an engine, the first with the process that starts them, and options for them.

    This process needs the memory of ``engine`` only before and after the ranks run. Both use the same pages
    of libraries.
    """
    if not engine.ranks:
        return (), ""
    first, *others = engine.ranks
    slices = first.mapped - LIBRARIES
    with_rank = memory - engine.held + first.held
    starting = replace(
        first, name="partition with rank 0", memory=max(memory, with_rank) + slices, mapped=mapped + slices
    )
    number = sum(rank.number for rank in engine.ranks)
    hosts = config.own(MpiOptions).hostfile or "FILE"
    return (starting, *others), f"--engine {config.engine} --mpi-ranks {number} --hostfile {hosts}"


def _other_engines(config: PartitionConfig, sizes: Sizes, machine: Machine) -> Iterator[str]:
    """Yield engines for the same options that need no more memory than there is; then those for several."""
    engines = [one for one in map(find_engine, engine_names()) if one.can_number(sizes.nodes)]
    for engine in (one for one in engines if not one.needs_ranks and one.name != config.engine):
        try:
            engine.check(config)
        except UsageError:
            continue
        found = _estimate(replace(config, engine=engine.name), sizes, machine)
        if found.held <= machine.memory:
            options = found.spread_by or f"--engine {engine.name}"
            yield f"Use {options}, which needs about {found.held / 2**30:.1f} GiB."
    spread = config.own(MpiOptions).hostfile is not None or machine.workers > 0
    for engine in (
        one for one in engines if one.many_machines and not (spread and one.name == config.engine)
    ):
        yield f"Use {engine.many_machines} over several machines."
