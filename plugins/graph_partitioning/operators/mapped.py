"""`MappedTasks`: the library's tasks that a mapped task of Airflow does."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import ClassVar

from partition_ops.artifacts.stage import find_stage


class MappedTasks:
    """Does tasks of one kind, whose numbers the argument has that the stage's declaration names.

    It is ``group``, ``range`` or ``part``: a number, a list of them, or text that a template makes of these.
    """

    stage: ClassVar[str]
    task_kind: ClassVar[str]

    @property
    def label(self) -> str:
        """Name of the mapped task: ``group 0`` or ``groups 0-3``."""
        first, *_ = numbers = self.numbers
        return f"{self._each} {first}" if len(numbers) == 1 else f"{self._each}s {first}-{numbers[-1]}"

    @property
    def numbers(self) -> list[int]:
        """The numbers of the tasks to run."""
        value: int | str | Sequence[int] = getattr(self, self._each)
        given = json.loads(value) if isinstance(value, str) else value
        return [int(number) for number in (given if isinstance(given, Sequence) else [given])]

    @property
    def _each(self) -> str:
        return next(one.each for one in find_stage(self.stage).tasks if one.name == self.task_kind)
