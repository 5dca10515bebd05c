"""The values of an estimate: what each stage takes, what the machine has, and what is too small."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil

from partition_ops.artifacts.cost import StageEstimate
from partition_ops.storage import Store
from partition_ops.storage.local_store import LocalStore
from partition_ops.system.memory import memory_limit
from partition_ops.system.parallel import cores


@dataclass(frozen=True, kw_only=True)
class Room:
    """Memory and disk of a machine, or of the cgroup around a process, in bytes.

    Attributes:
        memory: All memory that this process may take.
        available: The part of it that is free now.
        output: Free space on the disk of the output; None for an output on S3 or an unknown one.
        temporary: Free space on the disk of temporary files.
        same_disk: Whether both are on one disk.
        cores: Processors.
    """

    memory: int
    available: int
    output: int | None
    temporary: int
    same_disk: bool
    cores: int

    @classmethod
    def here(cls, destination: Store | None) -> Room:
        """Return what this machine has.

        Args:
            destination: Root of the output, which need not exist yet; None if it is not known.
        """
        temporary = Path(tempfile.gettempdir())
        limit = memory_limit()
        output = None
        if isinstance(destination, LocalStore):
            path = Path(destination.canonical_uri)
            output = next(folder for folder in (path, *path.absolute().parents) if folder.exists())
        return cls(
            memory=limit,
            available=min(limit, int(psutil.virtual_memory().available)),
            output=None if output is None else shutil.disk_usage(output).free,
            temporary=shutil.disk_usage(temporary).free,
            same_disk=output is not None and output.stat().st_dev == temporary.stat().st_dev,
            cores=cores(),
        )


@dataclass(frozen=True, kw_only=True)
class Shortage:
    """Memory or a disk that is too small.

    Attributes:
        stage: The stage that needs most of it.
        what: ``memory``, ``disk`` (of the output) or ``temporary``.
        needed: Bytes that the stage needs.
        there: Bytes that the machine has.
        remedies: What the user can do about it.
    """

    stage: str
    what: str
    needed: int
    there: int
    remedies: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """Memory, disk and time of a whole job.

    Attributes:
        graph_name: Name of the graph.
        nodes: Nodes of all types.
        edges: Edges of all types.
        num_parts: Number of partitions.
        engine: Name of the engine.
        stages: What each stage takes, in their order.
        whole: What the whole job takes in one process.
        room: What the machine has.
        shortages: Memory or disks that are too small.
        warnings: What is near the limit, or could not be estimated.
        missing: Files of the graph that are missing; they count as empty.
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
        """Return the estimate as JSON; sizes in bytes."""
        document = {"version": 1, "fits": self.fits, **asdict(self)}
        for stage in (*document["stages"], document["whole"]):
            del stage["warnings"], stage["remedies"]  # those that matter are in the lists of the job
        return document
