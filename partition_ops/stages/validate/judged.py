"""What Great Expectations made of the metrics: Data Docs to keep, and findings that are not ours."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from partition_ops.artifacts import layout
from partition_ops.artifacts.tasks import ArtifactWriter
from partition_ops.stages.validate.checks import CHECKS
from partition_ops.stages.validate.defects import EXAMPLES, Defect
from partition_ops.stages.validate.expectations import Judge, Outcome, Suite, Verdict
from partition_ops.storage import Store


@contextmanager
def judge_if_wanted(*, data_docs: bool, suites: list[Suite]) -> Iterator[Judge | None]:
    """A judge that gets ready while the caller measures; None where nobody asked for one.

    With suites of the user's it is waited for: a mistake in them is told now, not after hours.
    """
    if not data_docs and not suites:
        yield None
        return
    with Judge(suites) as judge:
        if suites:
            judge.wait_until_ready()
        yield judge


def keep_data_docs(task: ArtifactWriter, verdict: Verdict) -> None:
    """Write the Data Docs to ``validation/data_docs/``."""
    for path in sorted(verdict.data_docs.rglob("*")):
        if path.is_file():
            key = layout.data_docs(path.relative_to(verdict.data_docs).as_posix())
            task.wrote(task.destination.write_bytes(key, path.read_bytes()))


def unmet(verdict: Verdict) -> list[Defect]:
    """The expectations that are not met, but for ours about checks that have findings of their own."""
    told = [one for one in verdict.failures if one.ours and one.check in CHECKS]
    return [_defect(one) for one in verdict.failures if one not in told and one.action != "info"]


def _defect(outcome: Outcome) -> Defect:
    names = outcome.rows or [outcome.table]
    return Defect(
        check="expectations",
        name=outcome.table,
        count=max(outcome.failed_rows, 1),
        examples=[{"sentence": outcome.sentence, "rows": names[:EXAMPLES]}],
        action="fail" if outcome.action in (None, "fail") else "warn",
    )


def outcomes_json(verdict: Verdict | None) -> list[dict[str, Any]]:
    """The user's and our expectations with what came of them, for the report."""
    if verdict is None:
        return []
    keys = ("table", "expectation", "column", "check", "success", "sentence")
    return [{key: getattr(outcome, key) for key in keys} for outcome in verdict.outcomes]


def suites_in(store: Store | None) -> list[Suite]:
    """The user's suites.

    Raises:
        InvalidInputError: There is none, or one of them is not JSON.
    """
    if store is None:
        return []
    from partition_ops.stages.validate.expectations import read_suites

    return read_suites(store)
