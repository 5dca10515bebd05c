"""What an earlier call has left in an output."""

from __future__ import annotations

from partition_ops.artifacts import layout
from partition_ops.errors import InvalidInputError
from partition_ops.jobs.options import RunConfig
from partition_ops.options.stage_config import StageConfig
from partition_ops.stages.prepare.options import PrepareConfig
from partition_ops.storage import Store


def done_stages(config: RunConfig, destination: Store) -> frozenset[str]:
    """Stages that an earlier call with the same options has finished.

    Whether their inputs are still the same is for the stages to find out.
    """
    stages: dict[str, tuple[str, StageConfig]] = {
        "prepare": ("prepare", PrepareConfig(graph_name=config.graph_name)),
        "partition": ("partition", config.partition),
        "convert": ("convert-config", config.convert),
    }
    same = {stage for stage, (task, options) in stages.items() if _done(destination, task, options)}
    if destination.exists(layout.record("validate")):
        same.add("validate")
    return frozenset(same)


def _done(destination: Store, task: str, config: StageConfig) -> bool:
    key = layout.record(task)
    if not destination.exists(key):
        return False
    try:
        options = destination.read_json(key)["options"]
    except (InvalidInputError, KeyError, TypeError):
        return False  # the stage says what is wrong with it, or does its work again
    return all(options.get(name) == _plain(value) for name, value in config.options().items())


def _plain(value: object) -> object:
    """As JSON gives it back."""
    return list(value) if isinstance(value, tuple) else value


def present_bytes(destination: Store) -> int:
    """Bytes of the output that are there."""
    return sum(entry.size for entry in destination.list() if entry.key.split("/")[0] in layout.OURS)
