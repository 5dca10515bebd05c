"""Options that every stage takes, and checks of values."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, get_args

from partition_ops.errors import UsageError

MOST_PARTS = 65536


def check_choice(option: str, value: str, allowed: Any) -> None:
    choices = get_args(allowed)
    if value not in choices:
        raise UsageError(f"{option} cannot be {value!r}", expected="one of " + ", ".join(choices))


def check_num_parts(num_parts: int) -> None:
    if not 1 <= num_parts <= MOST_PARTS:
        raise UsageError("--num-parts is out of range", found=num_parts, expected=f"1 to {MOST_PARTS}")


@dataclass(frozen=True, kw_only=True)
class StageConfig:
    """What every stage takes.

    Attributes:
        graph_name: Used instead of the name in ``metadata.json``.
    """

    graph_name: str | None = None

    def options(self) -> dict[str, Any]:
        """The options as JSON, for records and the manifest."""
        return asdict(self)
