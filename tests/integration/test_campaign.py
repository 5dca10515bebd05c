"""A short form of the campaign; ``make campaign`` is the whole of it."""

from __future__ import annotations

from tests.campaign.frame import DEFECT, all_cases, missing_cases, run_campaign

SEED = "short"


def test_a_short_campaign_finds_no_defects() -> None:
    cases = [case for case in all_cases().values() if case.short]
    without = missing_cases(cases)
    chosen = [case for case in cases if case.name not in without]
    results = run_campaign(chosen, SEED, lambda case: range(case.short), processes=1)
    assert not [result.details for result in results if result.verdict == DEFECT]
    assert len(results) == sum(case.short for case in chosen)
