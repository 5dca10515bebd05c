"""Options of ``validate``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from partition_ops.errors import UsageError
from partition_ops.options.stage_config import StageConfig
from partition_ops.stages.validate.checks import checked_actions


@dataclass(frozen=True, kw_only=True)
class ValidateConfig(StageConfig):
    """Options of ``validate``.

    Attributes:
        on_defect: What to do about the findings of a check, by its name: ``fail``,
            ``exclude`` (the edges stay in the graph and the partitioner does not see them), ``drop`` (they
            leave the output) or ``warn``. One word alone means duplicate and self-loop edges. What no later
            stage could work on fails whatever this says.
        memory: Bytes that the search for duplicates may take; a quarter of what there is if left out.
        data_docs: Whether Great Expectations judges the metrics and writes Data Docs. It does in any case
            where the user has expectations of their own.
    """

    on_defect: str | Mapping[str, str] = "fail"
    memory: int | None = None
    data_docs: bool = False

    @property
    def actions(self) -> dict[str, str]:
        """The action of every check about which there is a choice."""
        return checked_actions(self.on_defect)

    def __post_init__(self) -> None:
        object.__setattr__(self, "on_defect", self.actions)  # in full, for records and the manifest
        if self.memory is not None and self.memory < 1:
            raise UsageError("--memory is out of range", found=self.memory, expected="a number of bytes")
