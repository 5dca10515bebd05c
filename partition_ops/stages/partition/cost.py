"""What ``partition`` takes: an engine and its assignment."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from partition_ops.artifacts.cost import LIBRARIES, Machine, Sizes, StageEstimate, TaskEstimate
from partition_ops.errors import UsageError
from partition_ops.stages.partition.engine import EngineCost, find_engine
from partition_ops.stages.partition.engines import engine_names
from partition_ops.stages.partition.mpi.options import MpiOptions
from partition_ops.stages.partition.options import PartitionConfig


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
    memory, mapped = machine.base + engine.held + degrees + engine.mapped, LIBRARIES + engine.mapped
    tasks, spread_by = _ranks(config, engine, memory, mapped) if machine.workers else ((), "")
    return StageEstimate(
        memory=max((task.memory for task in tasks), default=memory),
        mapped=mapped,
        tasks=tasks,
        spread_by=spread_by,
        output=assignment,
        cache=machine.fetched_back(graph + degrees + assignment),
        seconds=0.7 + engine.seconds,
        note=engine.note,
        warnings=engine.warnings,
    )


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
