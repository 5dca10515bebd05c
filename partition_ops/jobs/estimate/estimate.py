"""Estimate a whole job, compare it with the machine, and reject what does not fit, with the ways out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from partition_ops.artifacts.cost import MIB, Machine, Sizes, StageEstimate
from partition_ops.artifacts.stage import Stage, find_stage, is_ours, load
from partition_ops.artifacts.tasks import Task, changed_option
from partition_ops.chunked.metadata import GraphMetadata, load_metadata
from partition_ops.errors import InvalidInputError, NotEnoughRoomError
from partition_ops.jobs.estimate.result import Estimate, Room, Shortage
from partition_ops.jobs.options import RunConfig
from partition_ops.options.declare import StageConfig
from partition_ops.storage import Store
from partition_ops.storage.local_store import LocalStore
from partition_ops.system.parallel import map_in_threads

KEPT_BYTES, MOST_KEPT = 4, 250 * MIB  # an edge: memory of earlier stages that the process keeps
MODULES = 60 << 20  # imported by other stages, such as pandas
ONE_PROCESS = 4.0  # seconds: imports that stages in processes of their own repeat
PLACES = {
    "memory": "of memory",
    "disk": "on the disk of the output",
    "temporary": "on the disk of temporary files (TMPDIR)",
}
LAST_WAYS = (
    "Correct the counts in metadata.json if the graph is smaller."
    " Or start in spite of the estimate with --ignore-estimate (in the DAG's form: Ignore the estimate)."
)
FACTOR = 1.5  # an estimate may be wrong by this factor
SHOWN = 10  # types in a note


def estimate_job(
    config: RunConfig, source: Store, destination: Store | None = None, *, room: Room | None = None
) -> Estimate:
    """Estimate memory, disk and time of every stage from ``metadata.json`` and the sizes of the files.

    Args:
        config: Options of the job.
        source: Root of the input graph; only ``metadata.json`` is read.
        destination: Root of the output: its disk counts, and its finished stages need no memory. None means
            a new output on a local disk of any size.
        room: The machine; this one if omitted.

    Returns:
        The estimate. Memory and disk are within a factor of 1.5 of what was measured; see
        ``docs/estimate.md`` for what it cannot know.

    Raises:
        InvalidInputError: ``metadata.json`` is missing or wrong.

    Peak memory: negligible.
    """
    sizes = sizes_of(config, source)
    room = room or Room.here(destination)
    remote_destination = is_remote(destination)
    machine = Machine(room.memory, room.cores, is_remote(source), remote_destination)
    found = estimate_stages(config, sizes, machine)
    done = _done_stages(config, destination) if destination else frozenset()
    present = 0  # bytes that are already in the output
    if destination and not remote_destination:
        present = sum(entry.size for entry in destination.list() if is_ours(entry.key))
    return Estimate(
        graph_name=sizes.metadata.graph_name,
        nodes=sizes.nodes,
        edges=sizes.edges,
        num_parts=config.num_parts,
        engine=config.engine,
        stages=found,
        whole=_whole(found, sizes, machine),
        room=room,
        shortages=_find_shortages(config, found, room, done, present),
        warnings=_find_warnings(sizes, found, room),
        missing=sizes.missing,
    )


def sizes_of(config: RunConfig, source: Store) -> Sizes:
    """Return the sizes of the graph of a job; only ``metadata.json`` is read.

    Raises:
        InvalidInputError: ``metadata.json`` is missing or wrong.
    """
    return Sizes.of(
        load_metadata(source, graph_name=config.graph_name),
        source,
        num_parts=config.num_parts,
        unequal=config.target_shares is not None,
        trainers=config.num_trainers_per_machine,
        cut_random=not config.needs_graph,
    )


def estimate_stages(config: RunConfig, sizes: Sizes, machine: Machine) -> tuple[StageEstimate, ...]:
    """Return what each stage of a job takes, in their order."""
    costs = ((stage, load(stage.cost)) for stage in config.stages() if stage.cost)
    return tuple(
        replace(cost(config.of(stage.config), sizes, machine), stage=stage.name) for stage, cost in costs
    )


def is_remote(store: Store | None) -> bool:
    """Return whether files of a root are fetched before they are read."""
    return store is not None and not isinstance(store, LocalStore)


def check_job(config: RunConfig, source: Store, destination: Store, *, room: Room | None = None) -> Estimate:
    """Reject a job that would run out of memory or disk after hours.

    Counts in the metadata are not checked: ``validate`` does that.

    Args:
        config: Options of the job.
        source: Root of the input graph.
        destination: Root of the output.
        room: The machine; this one if omitted.

    Returns:
        The estimate.

    Raises:
        NotEnoughRoomError: Memory or a disk is too small; the message says by how much, and what helps.
        InvalidInputError: ``metadata.json`` is missing or wrong.
    """
    estimate = estimate_job(config, source, destination, room=room)
    if estimate.fits:
        return estimate
    remedies = list(dict.fromkeys(way for short in estimate.shortages for way in short.remedies))
    raise NotEnoughRoomError(
        f"There is too little room to make {estimate.num_parts} partitions of {estimate.graph_name!r}",
        found=[f"{_size(short.there)} {PLACES[short.what]}" for short in estimate.shortages],
        expected=[
            f"about {_size(short.needed)} {PLACES[short.what]}, for {short.stage}"
            for short in estimate.shortages
        ],
        remedy=" ".join([*remedies, LAST_WAYS]),
    )


def check_stage(
    name: str, config: StageConfig, source: Store, *, num_parts: int = 1, room: Room | None = None
) -> None:
    """Reject a stage that would exceed ``--memory``, before it begins; without the option, do nothing.

    A graph whose metadata is wrong is left to the stage.

    Args:
        name: Name of the stage.
        config: Its options.
        source: Root of the input graph.
        num_parts: Number of partitions, for a stage that follows ``partition``.
        room: The machine; this one if omitted.

    Raises:
        NotEnoughRoomError: The estimate exceeds the bound; the message has both, and what helps.
    """
    memory, stage = getattr(config, "memory", None), find_stage(name)
    if memory is None or not stage.cost:
        return
    room = room or Room.here(None)
    try:
        metadata = load_metadata(source, graph_name=config.graph_name)
    except InvalidInputError:
        return
    sizes = Sizes.of(metadata, source, num_parts=num_parts)
    machine = Machine(room.memory, room.cores, is_remote(source))
    found: StageEstimate = load(stage.cost)(config, sizes, machine)
    if found.held > room.memory:
        raise NotEnoughRoomError(
            f"{name} needs more memory than there is",
            found=_size(room.memory),
            expected=f"about {_size(found.held)}",
            remedy=" ".join((*found.remedies, _more_memory(memory, room))),
        )


def _size(count: int) -> str:
    """Return bytes as text for users."""
    return f"{count / 2**30:,.1f} GiB" if count >= 2**30 else f"{count / 2**20:,.1f} MiB"


def _whole(found: tuple[StageEstimate, ...], sizes: Sizes, machine: Machine) -> StageEstimate:
    """Return all stages in one process: memory of the largest, disk of all."""
    kept = min(KEPT_BYTES * sizes.edges, MOST_KEPT) + MODULES
    memory = max(stage.memory + more for stage, more in _with_others(found)) + kept
    held = max(stage.held + more for stage, more in _with_others(found)) + kept
    source = machine.fetched(sizes.input_bytes)
    cache = sum(machine.fetched_back(stage.cache) for stage in found)
    return StageEstimate(
        stage="whole job",
        memory=memory,
        mapped=memory - held,
        output=sum(stage.output for stage in found),
        scratch=sum(stage.scratch for stage in found),
        temporary=max(stage.temporary for stage in found),
        cache=max(cache, source),
        seconds=sum(stage.seconds for stage in found) - ONE_PROCESS,
    )


def _with_others(found: Sequence[StageEstimate]) -> Iterator[tuple[StageEstimate, int]]:
    """Yield each stage, and the bytes of what runs beside it in one process: see `StageEstimate.beside`."""
    yield from zip(found, [0, *(stage.beside for stage in found)], strict=False)


def _done_stages(config: RunConfig, destination: Store) -> frozenset[str]:
    """Return the stages that an earlier call has finished with these options.

    The stages themselves find out whether their input has changed since.
    """
    stages = config.stages()
    done = map_in_threads(
        lambda stage: _done(destination, stage, config), stages, workers=destination.requests
    )
    return frozenset(stage.name for stage, yes in zip(stages, done, strict=True) if yes)


def _done(destination: Store, stage: Stage, config: RunConfig) -> bool:
    try:
        task = Task.recorded(destination, stage.all_tasks[-1].name)
    except InvalidInputError:
        return False
    options = config.of(stage.config).options() if config.takes_options_of(stage) else {}
    options = {name: value for name, value in options.items() if name in task.options}
    recorded = {name: task.options[name] for name in options}
    return changed_option(recorded, options) is None and task.status(check="record").done


def _find_shortages(
    config: RunConfig,
    found: Sequence[StageEstimate],
    room: Room,
    done: frozenset[str],
    present: int,
) -> tuple[Shortage, ...]:
    """Return memory and disks that are too small.

    Args:
        config: Options of the job.
        found: Estimates of its stages.
        room: The machine.
        done: Stages that are finished already.
        present: Bytes that are already in the output.
    """
    more = _more_memory(config.memory, room)
    short = [
        Shortage(
            stage=stage.stage,
            what="memory",
            needed=stage.held + others,
            there=room.memory,
            remedies=(*stage.remedies, more),
        )
        for stage, others in _with_others(found)
        if stage.stage not in done and stage.held + others > room.memory
    ]
    return (*short, *_disks(found, room, done, present))


def _more_memory(option: int | None, room: Room) -> str:
    if option == room.memory:
        return "Allow more with --memory."
    return "Use a machine, or a worker, with more memory."


def _find_warnings(sizes: Sizes, found: Sequence[StageEstimate], room: Room) -> tuple[str, ...]:
    """Return what is near the limit, and what could not be estimated."""
    said = [
        f"{stage.stage} comes close to the memory of this machine: it may need more than is estimated"
        for stage, others in _with_others(found)
        if room.memory / FACTOR < stage.held + others <= room.memory
    ]
    said += [
        f"{stage.stage} needs more memory than is free now: other processes use the rest"
        for stage, others in _with_others(found)
        if room.available < stage.held + others <= room.memory
    ]
    said += _few_of_a_type(sizes.num_parts, sizes.metadata)
    said += (warning for stage in found for warning in stage.warnings)
    return (*said, *(f"{stage.stage}: {stage.note}" for stage in found if stage.note))


def _few_of_a_type(num_parts: int, metadata: GraphMetadata) -> list[str]:
    """Return a line about node types with fewer nodes than partitions, or no line."""
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
    """Return the disks that fill up, at the stage that needs most.

    Output and scratch stay; temporary files last as long as their stage, those of ``prepare`` until
    ``partition`` has taken them, before it writes any.
    """
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
        "disk": "Free space on the disk of the output, or use an output on another disk or on S3.",
        "temporary": "Set TMPDIR to a folder on a disk with more room.",
    }
    return Shortage(stage=stage, what=what, needed=needed, there=there, remedies=(ways[what],))
