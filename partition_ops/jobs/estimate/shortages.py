"""What there is too little of, and the ways out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from partition_ops.chunked.metadata import GraphMetadata
from partition_ops.errors import UsageError
from partition_ops.jobs.estimate import stages
from partition_ops.jobs.estimate.convert import convert
from partition_ops.jobs.estimate.job import Job
from partition_ops.jobs.estimate.result import Room, Shortage, StageEstimate
from partition_ops.jobs.options import RunConfig
from partition_ops.stages.partition.engine import find_engine

FACTOR = 1.5  # how far an estimate may be off
FEWEST = 1 << 20  # bytes of the search for duplicates that are worth a try
MOST_PARTS = 65536
SHOWN = 10  # types in a note


def find_shortages(
    job: Job, found: Sequence[StageEstimate], room: Room, done: frozenset[str], present: int
) -> tuple[Shortage, ...]:
    """Everything of which there is too little.

    Args:
        job: The job.
        found: Its stages.
        room: What there is.
        done: Stages that need not be done any more.
        present: Bytes of the output that are there already.
    """
    short = [
        Shortage(stage=stage.stage, what="memory", needed=stage.held, there=room.memory, remedies=ways)
        for stage in found
        if stage.stage not in done and stage.held > room.memory
        for ways in [_more_memory(job, stage.stage, room)]
    ]
    return (*short, *_disks(found, room, done, present))


def find_warnings(job: Job, found: Sequence[StageEstimate], room: Room) -> tuple[str, ...]:
    """What may become too little, and what could not be estimated."""
    said = [
        f"{stage.stage} comes near the memory that there is: it may need more than is estimated"
        for stage in found
        if room.memory / FACTOR < stage.held <= room.memory
    ]
    said += [
        f"{stage.stage} needs more memory than is free now: other processes have the rest"
        for stage in found
        if room.available < stage.held <= room.memory
    ]
    said += few_of_a_type(job.parts, job.sizes.metadata)
    metis = stages.metis_memory(job)
    if job.config.engine == "auto" and not stages.uses_metis(job.config) and metis > room.memory:
        said.append(
            "auto may choose METIS, for graphs such as grids and roads, which needs about"
            f" {metis / 2**30:.1f} GiB: more than there is"
        )
    return (*said, *(f"{stage.stage}: {stage.note}" for stage in found if stage.note))


def few_of_a_type(num_parts: int, metadata: GraphMetadata) -> list[str]:
    """Node types of which some partitions cannot have a node, in one line, or none."""
    few = [
        f"{name!r} ({count:,})"
        for name, count in zip(metadata.node_types, metadata.num_nodes, strict=True)
        if 0 < count < num_parts
    ]
    if not few:
        return []
    shown = ", ".join(few[:SHOWN]) + (", …" if len(few) > SHOWN else "")
    return [f"fewer nodes than the {num_parts:,} partitions, so that some will have none of a type: {shown}"]


def _disks(
    found: Sequence[StageEstimate], room: Room, done: frozenset[str], present: int
) -> tuple[Shortage, ...]:
    """Where a disk fills up first; output and scratch stay, temporary files go with their stage."""
    kept, most = -present, []
    for stage in found:
        kept += stage.output + stage.scratch
        passing = 0 if stage.stage in done else stage.temporary + stage.cache
        most.append((stage.stage, max(kept, 0), passing))
    short = []
    if room.output is not None:
        name, needed = max(
            ((name, kept + (passing if room.same_disk else 0)) for name, kept, passing in most),
            key=lambda one: one[1],
        )
        if needed > room.output:
            short.append(_disk(name, "disk", needed, room.output))
    if not room.same_disk:
        name, _, passing = max(most, key=lambda one: one[2])
        if passing > room.temporary:
            short.append(_disk(name, "temporary", passing, room.temporary))
    return tuple(short)


def _disk(stage: str, what: str, needed: int, there: int) -> Shortage:
    ways = {
        "disk": "Make room on the disk of the output, or give an output on another disk or on S3.",
        "temporary": "Set TMPDIR to a folder on a disk with more room.",
    }
    return Shortage(stage=stage, what=what, needed=needed, there=there, remedies=(ways[what],))


def _more_memory(job: Job, stage: str, room: Room) -> tuple[str, ...]:
    """What would need less, as far as it would fit."""
    tried: dict[str, Callable[[], list[str]]] = {
        "validate": lambda: _smaller_search(job, room),
        "prepare": lambda: ["Use --engine random, which needs no prepared graph."],
        "partition": lambda: _other_engines(job, room),
        "convert": lambda: _smaller_conversion(job, room),
    }
    ways = tried[stage]() if stage in tried else []
    return (*ways, "Take a machine, or a worker, with more memory.")


def _with(job: Job, **options: object) -> Job:
    changed: RunConfig = replace(job.config, **options)  # type: ignore[arg-type]
    return replace(job, config=changed)


def _smaller_search(job: Job, room: Room) -> list[str]:
    budget = room.memory // 8
    while budget > FEWEST:
        if stages.validate(_with(job, memory=budget)).held <= room.memory:
            return [f"Give the search for duplicates less: --memory {budget >> 20}M."]
        budget //= 2
    return []


def _other_engines(job: Job, room: Room) -> list[str]:
    ways = []
    for engine in ("two-level", "random"):
        if engine != job.config.engine and _supports(engine, job.config):
            needed = stages.partition(_with(job, engine=engine)).held
            if needed <= room.memory:
                ways.append(f"Use --engine {engine}, which needs about {needed / 2**30:.1f} GiB.")
    return [*ways, "Use --engine parmetis over several machines."]


def _supports(engine: str, config: RunConfig) -> bool:
    try:
        find_engine(engine).check(config.partition)
    except UsageError:
        return False
    return True


def _smaller_conversion(job: Job, room: Room) -> list[str]:
    ways = []
    smaller = _with(job, memory=max(room.memory // 2, 1))
    if convert(smaller).held <= room.memory:
        ways.append(f"Build fewer partitions at a time: --memory {room.memory >> 21}M.")
    if set(job.config.graph_formats) != {"coo"}:
        ways.append("Leave out csr and csc: --graph-formats coo.")
    if job.config.num_hops > 1:
        ways.append("Ask for a smaller halo: --num-hops 1.")
    parts = job.parts
    while job.config.target_shares is None and parts * 2 <= MOST_PARTS:
        parts *= 2
        if convert(_with(job, num_parts=parts)).held <= room.memory:
            return [*ways, f"Make more partitions: --num-parts {parts}."]
    return ways
