"""Estimate a whole job, compare it with the machine, and refuse what cannot end well."""

from __future__ import annotations

from partition_ops.chunked.metadata import load_metadata
from partition_ops.errors import NotEnoughRoomError
from partition_ops.jobs.estimate import stages
from partition_ops.jobs.estimate.convert import convert
from partition_ops.jobs.estimate.done import done_stages, present_bytes
from partition_ops.jobs.estimate.job import MIB, Job
from partition_ops.jobs.estimate.result import Estimate, Room, StageEstimate
from partition_ops.jobs.estimate.room import room_here
from partition_ops.jobs.estimate.shortages import find_shortages, find_warnings
from partition_ops.jobs.estimate.sizes import Sizes
from partition_ops.jobs.options import RunConfig
from partition_ops.storage import Store
from partition_ops.storage.local_store import LocalStore

KEPT_BYTES, MOST_KEPT = 10, 250 * MIB  # an edge: what a process that does every stage keeps of earlier ones
MODULES = 60 << 20  # of other stages: pandas, and the library that draws
PLACES = {
    "memory": "of memory",
    "disk": "on the disk of the output",
    "temporary": "on the disk of temporary files (TMPDIR)",
}
LAST_WAYS = (
    "Correct the counts in metadata.json if the graph is not so large."
    " Or go on all the same with --ignore-estimate (in the DAG's form: Ignore the estimate)."
)


def estimate_job(
    config: RunConfig, source: Store, destination: Store | None = None, *, room: Room | None = None
) -> Estimate:
    """Estimate memory, disk and time of every stage from ``metadata.json`` and the sizes of the files.

    Args:
        config: Options of the job.
        source: Root of the input graph; only ``metadata.json`` is read.
        destination: Root of the output, whose disk counts and where finished stages need no memory any more;
            None means a new output on a local disk of any size.
        room: What there is; this machine if left out.

    Returns:
        The estimate. Within a factor of 1.5 for memory and disk where that was measured; see
        ``docs/estimate.md`` for what it cannot know.

    Raises:
        InvalidInputError: There is no ``metadata.json``, or it is wrong.

    Peak memory: nothing that counts.
    """
    metadata = load_metadata(source, graph_name=config.graph_name)
    room = room or room_here(destination)
    remote_destination = destination is not None and not isinstance(destination, LocalStore)
    job = Job(
        sizes=Sizes.of(metadata, source),
        config=config,
        limit=room.memory,
        cores=room.cores,
        remote_source=not isinstance(source, LocalStore),
        remote_destination=remote_destination,
    )
    found = _stages(job)
    whole = _whole(job, found)
    done = done_stages(config, destination) if destination else frozenset()
    present = present_bytes(destination) if destination and not remote_destination else 0
    return Estimate(
        graph_name=metadata.graph_name,
        nodes=job.sizes.nodes,
        edges=job.sizes.edges,
        num_parts=config.num_parts,
        engine=config.engine,
        stages=found,
        whole=whole,
        room=room,
        shortages=find_shortages(job, found, room, done, present),
        warnings=find_warnings(job, found, room),
        missing=job.sizes.missing,
    )


def check_job(
    config: RunConfig, source: Store, destination: Store, *, room: Room | None = None
) -> Estimate | None:
    """Refuse a job that would be killed, or fill a disk, after hours.

    Nothing is refused because of bad metadata: that is for ``validate`` to say.

    Args:
        config: Options of the job.
        source: Root of the input graph.
        destination: Root of the output.
        room: What there is; this machine if left out.

    Returns:
        The estimate.

    Raises:
        NotEnoughRoomError: With what is needed, what there is, and the ways out.
        InvalidInputError: There is no ``metadata.json``, or it is wrong.
    """
    estimate = estimate_job(config, source, destination, room=room)
    if estimate.fits:
        return estimate
    remedies = list(dict.fromkeys(way for short in estimate.shortages for way in short.remedies))
    raise NotEnoughRoomError(
        f"There is too little room to make {estimate.num_parts} partitions of {estimate.graph_name!r}",
        found=[f"{size(short.there)} {PLACES[short.what]}" for short in estimate.shortages],
        expected=[
            f"about {size(short.needed)} {PLACES[short.what]}, for {short.stage}"
            for short in estimate.shortages
        ],
        remedy=" ".join([*remedies, LAST_WAYS]),
    )


def size(count: int) -> str:
    """Bytes for people."""
    return f"{count / 2**30:,.1f} GiB" if count >= 2**30 else f"{count / 2**20:,.1f} MiB"


def _stages(job: Job) -> tuple[StageEstimate, ...]:
    found = [
        stages.validate(job),
        stages.schema(job),
        stages.prepare(job),
        stages.partition(job),
        convert(job),
        stages.idmap(job),
        stages.quality(job),
        stages.publish(job),
    ]
    return tuple(stage for stage in found if stage is not None)


def _whole(job: Job, found: tuple[StageEstimate, ...]) -> StageEstimate:
    """All stages in one process: memory of the largest, disk of all."""
    kept = min(KEPT_BYTES * job.sizes.edges, MOST_KEPT) + MODULES
    memory = max(stage.memory for stage in found) + kept
    held = max(stage.held for stage in found) + kept
    source = job.fetched(job.sizes.input_bytes)
    cache = sum(job.fetched_back(stage.cache) for stage in found)
    return StageEstimate(
        stage="whole job",
        memory=memory,
        mapped=memory - held,
        output=sum(stage.output for stage in found),
        scratch=sum(stage.scratch for stage in found),
        temporary=max(stage.temporary for stage in found),
        cache=max(cache, source),
        seconds=sum(stage.seconds for stage in found),
    )
