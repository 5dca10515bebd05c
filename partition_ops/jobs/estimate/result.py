"""What an estimate says."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class StageEstimate:
    """What one stage takes; bytes, and seconds.

    Attributes:
        stage: Its name.
        memory: Peak resident set of a process that does only this stage; files that it maps count.
        mapped: As much of it is pages of files: the system takes them back rather than kill the process.
        output: What it leaves in the output.
        scratch: What it leaves in the output's ``scratch/`` until ``publish``.
        temporary: Its temporary files, below ``TMPDIR``, at their most.
        cache: What it fetches from S3, below ``TMPDIR``, and keeps until the process ends; and files on their
            way to S3.
        seconds: A rough time; depends on the machine.
        note: What the figures take for granted, or None.
    """

    stage: str
    memory: int = 0
    mapped: int = 0
    output: int = 0
    scratch: int = 0
    temporary: int = 0
    cache: int = 0
    seconds: float = 0.0
    note: str | None = None

    @property
    def held(self) -> int:
        """Bytes of memory without which the process is killed."""
        return self.memory - self.mapped


@dataclass(frozen=True, kw_only=True)
class Room:
    """What a machine, or the cgroup around a process, has; bytes.

    Attributes:
        memory: All memory that this process may take.
        available: What is free of it now.
        output: Free on the disk of the output; None where that is on S3 or is not known.
        temporary: Free on the disk of temporary files.
        same_disk: Whether both are on one disk.
        cores: Processors.
    """

    memory: int
    available: int
    output: int | None
    temporary: int
    same_disk: bool
    cores: int


@dataclass(frozen=True, kw_only=True)
class Shortage:
    """Something of which there is too little.

    Attributes:
        stage: The stage that needs most of it.
        what: ``memory``, ``disk`` (of the output) or ``temporary``.
        needed: Bytes.
        there: Bytes.
        remedies: The ways out.
    """

    stage: str
    what: str
    needed: int
    there: int
    remedies: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """What a whole job takes.

    Attributes:
        graph_name: Name of the graph.
        nodes: Nodes of all types.
        edges: Edges of all types.
        num_parts: Number of partitions.
        engine: Name of the engine.
        stages: In their order.
        whole: The whole job in one process.
        room: What there is.
        shortages: Of what there is too little.
        warnings: What is near the limit, or could not be estimated.
        missing: Files of the graph that are not there; they count as empty.
    """

    graph_name: str
    nodes: int
    edges: int
    num_parts: int
    engine: str
    stages: tuple[StageEstimate, ...]
    whole: StageEstimate
    room: Room
    shortages: tuple[Shortage, ...]
    warnings: tuple[str, ...]
    missing: tuple[str, ...]

    @property
    def fits(self) -> bool:
        return not self.shortages

    def to_json(self) -> dict[str, Any]:
        """As JSON; sizes in bytes."""
        return {"version": 1, "fits": self.fits, **asdict(self)}
