"""What Great Expectations says about the tables."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Outcome:
    """One expectation, met or not.

    Attributes:
        table: The table that it is about.
        ours: Whether it is from a suite of this project, and not of the user.
        expectation: Its type, such as ``expect_column_values_to_be_between``.
        column: The column that it is about; None where it is about several or none.
        check: Name of the check, from ``meta.check``; None for an expectation without one.
        action: What a failure means: ``meta.action`` (``fail``, ``warn`` or ``info``), else what follows
            from the ``severity``: ``warn`` for warning, ``info`` for info, None for critical.
        success: Whether it is met.
        rows: Names of the first ten things that do not meet it; empty for an expectation on a whole
            column or table.
        failed_rows: Number of all things that do not meet it.
        observed: The value that an expectation on a whole column or table saw, as text.
        sentence: What was found and what was expected, and for which types.
    """

    table: str
    ours: bool
    expectation: str
    column: str | None
    check: str | None
    action: str | None
    success: bool
    rows: list[str]
    failed_rows: int
    observed: str | None
    sentence: str


@dataclass(frozen=True)
class Verdict:
    """The outcomes of all expectations.

    Attributes:
        outcomes: In the order of the tables and of the suites.
        data_docs: Local folder with the Data Docs, ``index.html`` first of all; it goes with the `Judge`.
    """

    outcomes: list[Outcome]
    data_docs: Path

    @property
    def failures(self) -> list[Outcome]:
        """The expectations that are not met."""
        return [outcome for outcome in self.outcomes if not outcome.success]
