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
    """Memory and disk of a machine, or of the cgroup around a process, in bytes."""

    memory: int  # all memory that this process may take
    available: int  # the part of it that is free now
    output: int | None  # free space on the disk of the output; None for an output on S3 or an unknown one
    temporary: int  # free space on the disk of temporary files
    same_disk: bool  # whether both are on one disk
    cores: int  # processors

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
    """Memory or a disk that is too small."""

    stage: str  # the stage that needs most of it
    what: str  # ``memory``, ``disk`` (of the output) or ``temporary``
    needed: int  # bytes that the stage needs
    there: int  # bytes that the machine has
    remedies: tuple[str, ...]  # what the user can do about it


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """Memory, disk and time of a whole job."""

    graph_name: str  # name of the graph
    nodes: int  # nodes of all types
    edges: int  # edges of all types
    num_parts: int  # number of partitions
    engine: str  # name of the engine
    stages: tuple[StageEstimate, ...]  # what each stage takes, in their order
    whole: StageEstimate  # what the whole job takes in one process
    room: Room  # what the machine has
    shortages: tuple[Shortage, ...]  # memory or disks that are too small
    warnings: tuple[str, ...]  # what is near the limit, or could not be estimated
    missing: tuple[str, ...]  # files of the graph that are missing; they count as empty

    @property
    def fits(self) -> bool:
        return not self.shortages

    def to_json(self) -> dict[str, Any]:
        """Return the estimate as JSON; sizes in bytes."""
        document = {"version": 1, "fits": self.fits, **asdict(self)}
        for stage in (*document["stages"], document["whole"]):
            del stage["warnings"], stage["remedies"]  # those that matter are in the lists of the job
        return document
