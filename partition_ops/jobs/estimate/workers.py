"""Estimate whether a job fits on several workers, each stage split as far as it can be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

from partition_ops.artifacts.cost import MIB, Machine, Sizes, StageEstimate, TaskEstimate
from partition_ops.jobs.estimate.estimate import estimate_stages, is_remote, sizes_of
from partition_ops.jobs.options import RunConfig
from partition_ops.stages.partition.engine import find_engine
from partition_ops.stages.partition.engines import engine_names
from partition_ops.storage import Store

MOST_WORKERS = 4096  # as many as --mpi-ranks can be
MOST_MEMORY = 1 << 62


@dataclass(frozen=True, kw_only=True)
class SharedStage:
    """What a stage takes of each worker."""

    stage: str  # its name
    # the largest of each kind of its tasks; only one task if the stage cannot be split
    tasks: tuple[TaskEstimate, ...]
    spread: bool  # whether several workers share it
    spread_by: str  # options that split it; ``""`` if it is split anyway, or cannot be
    fits: bool  # whether each task fits on a worker


@dataclass(frozen=True, kw_only=True)
class WorkersEstimate:
    """Memory of each task of a job on several workers, which run one task at a time each."""

    graph_name: str  # name of the graph
    nodes: int  # nodes of all types
    edges: int  # edges of all types
    num_parts: int  # number of partitions
    engine: str  # name of the engine
    workers: int  # number of workers
    memory: int  # bytes of memory of each worker
    cores: int  # processors of each worker
    stages: tuple[SharedStage, ...]  # what each stage takes, in their order
    fewest_workers: int | None  # so many workers of this memory would do; None if no number does
    too_large: tuple[str, ...]  # stages that fit on no number of workers of this memory
    least_memory: int  # bytes of memory with which so many workers would do, rounded up to MiB
    remedies: tuple[str, ...]  # what helps the stages that do not fit, as whole sentences
    warnings: tuple[str, ...]  # what the figures assume
    missing: tuple[str, ...]  # files of the graph that are missing; they count as empty

    @property
    def fits(self) -> bool:
        return all(stage.fits for stage in self.stages)

    def to_json(self) -> dict[str, Any]:
        """Return the estimate as JSON; sizes in bytes."""
        document = {"version": 1, "fits": self.fits, **asdict(self)}
        for stage, shown in zip(self.stages, document["stages"], strict=True):
            for task, figures in zip(stage.tasks, shown["tasks"], strict=True):
                figures["held"] = task.held
        return document


def estimate_workers(
    config: RunConfig,
    source: Store,
    destination: Store | None = None,
    *,
    workers: int,
    memory: int,
    cores: int,
) -> WorkersEstimate:
    """Estimate the memory of each task, if several workers share the stages of a job.

    ``validate`` is split into tasks, ``convert`` into mapped tasks, and an engine that runs over MPI into
    ranks, one on each worker. Other stages are one task. The declarations of cost of stages and engines say
    what each takes, as for `estimate_job`.

    Args:
        config: Options of the job; its ``memory`` does not count.
        source: Root of the input graph; only ``metadata.json`` is read.
        destination: Root of the output; only whether it is on S3 counts.
        workers: Number of workers.
        memory: Bytes of memory of each.
        cores: Processors of each.

    Raises:
        InvalidInputError: ``metadata.json`` is missing or wrong.

    Peak memory: negligible.
    """
    config, sizes = replace(config, memory=None), sizes_of(config, source)
    machine = Machine(memory, cores, is_remote(source), is_remote(destination), workers)

    def stages(machine: Machine) -> list[SharedStage]:
        return [_shared(one, machine) for one in estimate_stages(config, sizes, machine)]

    def fits(machine: Machine) -> bool:
        return all(stage.fits for stage in stages(machine))

    found = estimate_stages(config, sizes, machine)
    return WorkersEstimate(
        graph_name=sizes.metadata.graph_name,
        nodes=sizes.nodes,
        edges=sizes.edges,
        num_parts=sizes.num_parts,
        engine=config.engine,
        workers=workers,
        memory=memory,
        cores=cores,
        stages=tuple(_shared(one, machine) for one in found),
        fewest_workers=_fewest(lambda count: fits(replace(machine, workers=count)), MOST_WORKERS),
        too_large=tuple(one.stage for one in stages(replace(machine, workers=MOST_WORKERS)) if not one.fits),
        least_memory=_least_memory(lambda size: fits(replace(machine, memory=size))),
        remedies=tuple(
            dict.fromkeys(
                remedy for one in found if not _shared(one, machine).fits for remedy in one.remedies
            )
        ),
        warnings=_warnings(config, sizes, found),
        missing=sizes.missing,
    )


def _shared(found: StageEstimate, machine: Machine) -> SharedStage:
    alone = TaskEstimate(name=found.stage, number=1, memory=found.memory, mapped=found.mapped)
    tasks = found.tasks or (alone,)
    return SharedStage(
        stage=found.stage,
        tasks=tasks,
        spread=bool(found.tasks),
        spread_by=found.spread_by,
        fits=all(task.held <= machine.memory for task in tasks),
    )


def _fewest(enough: Callable[[int], bool], last: int) -> int | None:
    """Return the least number that is enough, if more are enough whenever fewer are; None if none is."""
    if not enough(last):
        return None
    first = 1
    while first < last:
        middle = (first + last) // 2
        first, last = (first, middle) if enough(middle) else (middle + 1, last)
    return first


def _least_memory(enough: Callable[[int], bool]) -> int:
    found = _fewest(lambda count: enough(count * MIB), MOST_MEMORY // MIB)
    return (found or MOST_MEMORY // MIB) * MIB


def _warnings(config: RunConfig, sizes: Sizes, found: tuple[StageEstimate, ...]) -> tuple[str, ...]:
    said = [f"{one.stage}: {one.note}" for one in found if one.note]
    said += [warning for one in found for warning in one.warnings]
    if not find_engine(config.engine).many_machines:
        engines = [one for one in map(find_engine, engine_names()) if one.can_number(sizes.nodes)]
        others = [one.many_machines for one in engines if one.many_machines]
        said.append(f"the engine {config.engine} is one process; over several workers: {', '.join(others)}")
    return tuple(said)
