"""The tasks of the stage, for workers that share it: each call is a process of its own, which reads anew."""

from __future__ import annotations

from collections.abc import Sequence

from partition_ops.artifacts.tasks import StageResult
from partition_ops.stages.convert.context import Conversion
from partition_ops.stages.convert.convert import gather_partitions, scatter_groups
from partition_ops.stages.convert.options import ConvertConfig
from partition_ops.stages.convert.plan import make_plan
from partition_ops.stages.convert.write_book import write_book
from partition_ops.storage import Store
from partition_ops.system.progress import Progress


def plan(
    config: ConvertConfig, source: Store, destination: Store, *, progress: Progress | None = None
) -> StageResult:
    """Do `make_plan`."""
    return make_plan(Conversion(config, source, destination))


def scatter(
    config: ConvertConfig,
    source: Store,
    destination: Store,
    *,
    groups: Sequence[int],
    progress: Progress | None = None,
) -> list[StageResult]:
    """Do `scatter_groups`."""
    return scatter_groups(Conversion(config, source, destination), groups, progress)


def gather(
    config: ConvertConfig,
    source: Store,
    destination: Store,
    *,
    parts: Sequence[int],
    progress: Progress | None = None,
) -> list[StageResult]:
    """Do `gather_partitions`."""
    return [*gather_partitions(Conversion(config, source, destination), parts, progress)]


def write(
    config: ConvertConfig, source: Store, destination: Store, *, progress: Progress | None = None
) -> StageResult:
    """Do `write_book`."""
    return write_book(Conversion(config, source, destination))
