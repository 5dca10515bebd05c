"""A short form of the campaign; ``make campaign`` is the whole of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.campaign.frame import DEFECT, all_cases, missing_cases, run_campaign

SEED = "short"


@pytest.mark.long
def test_a_short_campaign_finds_no_defects_and_its_journal_goes_on(tmp_path: Path) -> None:
    cases = [case for case in all_cases().values() if case.short]
    without = missing_cases(cases)
    chosen = [case for case in cases if case.name not in without]
    journal = tmp_path / "journal"
    results = run_campaign(chosen, SEED, lambda case: range(case.short), processes=1, journal=journal)
    assert not [result.details for result in results if result.verdict == DEFECT]
    assert len(results) == sum(case.short for case in chosen)
    assert any(result.killed for result in results)
    assert run_campaign(chosen, SEED, lambda case: range(case.short), processes=1, journal=journal) == results
