"""The options of the whole job, from values of the form of `partition_graph`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from partition_ops.jobs.options import RunConfig

NUM_PARTS = 4
"""What the form begins with."""
WHOLE_NUMBERS = {"num_parts", "seed", "num_hops", "num_trainers_per_machine", "migration_price"}
NUMBERS = {"tolerance", "drift"}
SWITCHES = {"compare_full", "probe", "ignore_estimate"}
LISTS = {"graph_formats", "target_shares"}


def run_config(settings: Mapping[str, Any]) -> RunConfig:
    """The options that a DAG run with these params would take; what is empty is as in the form.

    Args:
        settings: Values by the names of the params, as they are or as templates make them, text; those that
            are no options of the whole job are passed over.

    Raises:
        UsageError: A value is wrong.
    """
    from partition_ops.jobs.options import RunConfig
    from partition_ops.stages.partition.options import MpiOptions
    from partition_ops.stages.validate.checks import choices

    given = {name: value for name, value in settings.items() if value not in ("", None)}
    known = set(RunConfig.__dataclass_fields__) - {"mpi", "gate", "on_defect", "memory"}
    options = {name: _value(name, value) for name, value in given.items() if name in known}
    actions = {check: given[f"on_{check}"] for check in choices() if f"on_{check}" in given}
    if actions:
        options["on_defect"] = actions
    if "mpi_ranks" in given:
        options["mpi"] = MpiOptions(ranks=whole_number("mpi_ranks", given["mpi_ranks"]))
    return RunConfig(**{"num_parts": NUM_PARTS, **options})


def _value(name: str, value: Any) -> Any:
    if name in WHOLE_NUMBERS:
        return whole_number(name, value)
    if name in NUMBERS:
        return number(name, value)
    if name in SWITCHES:
        return is_true(value)
    if name in LISTS and isinstance(value, str):
        words = tuple(word.strip() for word in value.split(","))
        return words if name == "graph_formats" else tuple(number(name, word) for word in words)
    return tuple(value) if name in LISTS else value


def whole_number(option: str, value: object) -> int:
    """A number that came through a template.

    Raises:
        UsageError: It is not one.
    """
    from partition_ops.errors import UsageError

    try:
        return int(str(value))
    except ValueError:
        raise UsageError(f"{option} is not a whole number", found=repr(value)) from None


def number(option: str, value: object) -> float:
    """A number that came through a template.

    Raises:
        UsageError: It is not one.
    """
    from partition_ops.errors import UsageError

    try:
        return float(str(value))
    except ValueError:
        raise UsageError(f"{option} is not a number", found=repr(value)) from None


def is_true(value: object) -> bool:
    """A truth value that may have come through a template."""
    return str(value).lower() == "true"
