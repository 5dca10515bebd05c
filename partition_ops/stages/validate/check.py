"""`Check`: the name, the severity and the actions of a check, and what a finding of it means."""

from __future__ import annotations

from dataclasses import dataclass

ACTIONS = {
    "fail": "the run stops",
    "exclude": "the engine does not see the edges, the partitions have them",
    "drop": "the edges leave the output",
    "warn": "the report lists the findings, and the run goes on",
}
"""What can be done about findings; a check allows some of these."""

SEVERITIES = ("error", "warning", "information")


@dataclass(frozen=True, kw_only=True)
class Check:
    """A check of the stage ``validate``.

    Attributes:
        name: As in the report, the options, the form and the metrics.
        severity: ``error``, ``warning`` or ``information``.
        actions: What a user may choose to do about findings, the default first. If it is only ``fail``, later
            stages could not work with what was found.
        finding: What a finding is, as a clause: "an edge begins and ends at the same node".
        harm: What goes wrong without the check.
        title: Title of its field in the form, if there is a choice; made of the name if left out.
    """

    name: str
    severity: str = "error"
    actions: tuple[str, ...] = ("fail",)
    finding: str
    harm: str
    title: str = ""

    def __post_init__(self) -> None:
        if self.severity not in SEVERITIES or not self.actions or not set(self.actions) <= set(ACTIONS):
            raise ValueError(
                f"check {self.name!r} has severity {self.severity!r} and actions {self.actions};"
                f" known are {', '.join(SEVERITIES)} and {', '.join(ACTIONS)}"
            )

    @property
    def form_title(self) -> str:
        """Title of its field in the form."""
        return self.title or f"On {self.name.replace('_', ' ')}"
