"""Options of ``validate``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from partition_ops.options.declare import ROOT_PATTERN, Option, Options, StageConfig, option
from partition_ops.options.values import memory_option, tasks_option
from partition_ops.stages.validate.check import ACTIONS
from partition_ops.stages.validate.checks import CHECKS, checked_actions, parse_actions

MEMORY_SHARE = 0.25  # of the available memory, for the search for duplicates


def action_options() -> dict[str, Option]:
    """Return an option for each check with a choice of actions, by the name of the check."""
    return {
        check.name: Option(
            name=f"on_{check.name}",
            help=" ".join(f"{action}: {ACTIONS[action]}." for action in check.actions),
            title=check.form_title,
            section="" if "drop" in check.actions else "More",
            choices=check.actions,
            default=check.actions[0],
        )
        for check in CHECKS.values()
        if len(check.actions) > 1
    }


def parse_action(text: str) -> dict[str, str]:
    """Return actions by check from ``CHECK=ACTION``, or from ``ACTION`` for the edges that can be dropped."""
    return parse_actions([text])


@dataclass(frozen=True, kw_only=True)
class ValidateConfig(StageConfig):
    """Options of ``validate``."""

    on_defect: str | Mapping[str, str] = option(
        "fail",
        help="Action on findings: fail, exclude (the engine ignores the edges, and the partitions"
        " contain them), drop (the edges are left out of the output) or warn. Without CHECK it means"
        " duplicate_edges and self_loop_edges. The option may be repeated.",
        metavar="[CHECK=]ACTION",
        parse=parse_action,
        by_key=action_options,
    )
    memory: int | None = memory_option(
        "The search for duplicates uses the disk instead, and a command that takes more ends with an error."
    )
    validation_tasks: int = tasks_option(
        "validate",
        1,
        "Number of tasks that validate is split into. In the DAG, they run on several workers and"
        " exchange files below the output; elsewhere, they run one after another. The more tasks, the less"
        " memory each takes. The result does not depend on the option.",
    )
    data_docs: bool = option(
        False,
        help="Write Great Expectations' Data Docs, which takes some seconds. They are always written if there"
        " are expectation suites of your own.",
        title="Data Docs",
        form=None,
    )

    @property
    def actions(self) -> dict[str, str]:
        """The action of every check whose action can be chosen."""
        return checked_actions(self.on_defect)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "on_defect", self.actions)  # in full, for records and the manifest


@dataclass(frozen=True, kw_only=True)
class ExpectationSuites(Options):
    """The user's own expectation suites."""

    expectations: str | None = option(
        None,
        help="Folder with your own expectation suites, files of Great Expectations: a local path or s3://….",
        title="Expectations of your own",
        section="More",
        metavar="DIR",
        empty="no suites of your own",
        form={"name": "expectations_uri", "pattern": f"^$|{ROOT_PATTERN}"},
    )
