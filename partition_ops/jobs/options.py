"""Options of the whole job."""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass, make_dataclass, replace
from datetime import timedelta
from typing import Any, TypeVar

from partition_ops.artifacts.stage import Stage, job_stages, other_stages
from partition_ops.errors import UsageError
from partition_ops.options.declare import Options, StageConfig, groups, option, option_group
from partition_ops.options.values import memory_option, parse_time
from partition_ops.stages.cache.options import CacheConfig
from partition_ops.stages.convert.options import ConvertConfig
from partition_ops.stages.ingest.options import IngestConfig
from partition_ops.stages.partition.options import PartitionConfig
from partition_ops.stages.prepare.options import PrepareTasks
from partition_ops.stages.publish.options import Gate, Replacement
from partition_ops.stages.validate.options import ValidateConfig

Config = TypeVar("Config", bound=StageConfig)
# the options of stages of other packages: a group for each
OtherStages = make_dataclass(
    "OtherStages",
    [(one.name.replace("-", "_"), one.config, option_group(one.config)) for one in other_stages()],
    bases=(Options,),
    frozen=True,
    kw_only=True,
)


@dataclass(frozen=True, kw_only=True)
class RunConfig(
    IngestConfig, ValidateConfig, PrepareTasks, ConvertConfig, CacheConfig, PartitionConfig, Replacement
):
    """Options of the whole job: those of the stages, and its own.

    The stages' options are inherited, or in a group if another package has the stage, so that a stage
    declares each of them once. `of` returns the configuration of a stage. ``docs/options.md`` describes every
    option.
    """

    memory: int | None = memory_option(
        "A job that is estimated to take more is rejected; stages plan with it, and a job that takes more"
        " anyway ends with an error."
    )
    probe: bool = option(
        False,
        help="Also sample mini-batches as the trainer of each partition would, and report how much data they"
        " fetch from other partitions.",
        title="Probe the partitions",
        section="More",
    )
    ignore_estimate: bool = option(
        False,
        help="Start even if the estimate says that there is too little memory or disk.",
        title="Ignore the estimate",
        section="More",
    )
    check_artifacts: bool = option(
        False,
        help="Read all artifacts of an earlier command, and rebuild damaged ones, even if their sizes are"
        " right.",
        title="Check the artifacts",
        section="More",
        form=None,
    )
    gate: Gate = option_group(Gate)
    others: Any = option_group(OtherStages)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.probe and self.num_hops == 0 and self.num_parts > 1:
            raise UsageError(
                "Without a halo there is nothing to probe: no edge leads from one partition to another",
                found="--num-hops 0",
                expected="1 or more",
            )

    @property
    def needs_graph(self) -> bool:
        """Whether the engine reads the graph that ``prepare`` writes."""
        from partition_ops.stages.partition.engine import find_engine  # imports what engines need

        return find_engine(self.engine).needs_graph

    def of(self, config: type[Config]) -> Config:
        """Return the configuration of a stage; options that a job does not take have their defaults."""
        for field in fields(OtherStages):
            if field.type is config:
                own: Config = replace(getattr(self.others, field.name), graph_name=self.graph_name)
                return own
        shared = {name for name in groups(config) if hasattr(self, name)}
        for base in config.__mro__:
            if is_dataclass(base) and isinstance(self, base):
                shared |= {field.name for field in fields(base)}
        taken = (one.name for one in fields(config) if one.name in shared)
        return config(**{name: getattr(self, name) for name in taken})

    def takes_options_of(self, stage: Stage) -> bool:
        """Return whether the job takes the options of a stage."""
        return isinstance(self, stage.config) or stage in other_stages()

    def stages(self) -> list[Stage]:
        """Return the stages of the job, in their order."""
        return [stage for stage in job_stages() if not stage.optional or self._wants(stage)]

    def _wants(self, stage: Stage) -> bool:
        own = self.of(stage.config)
        return bool(getattr(own if hasattr(own, stage.optional) else self, stage.optional))


def _days(value: timedelta) -> str:
    return f"{value / timedelta(days=1):g}d"


@dataclass(frozen=True, kw_only=True)
class RetentionConfig(Options):
    """Options of ``retain``."""

    keep: int = option(
        help="Number of published runs of the graph to keep; older ones are removed.",
        title="Runs to keep",
        section="Publishing",
        metavar="N",
        minimum=1,
    )
    grace: timedelta = option(
        timedelta(days=7),
        help="Time such as 12h or 7d. Runs in which a file was written within it are not removed.",
        title="Days of grace",
        section="Publishing",
        metavar="TIME",
        parse=parse_time,
        show=_days,
        form=None,
    )
    dry_run: bool = option(False, help="Only print what would be removed.", section="Publishing", form=None)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.grace < timedelta(0):
            raise UsageError("--grace is out of range", found=str(self.grace), expected="0 or more")
