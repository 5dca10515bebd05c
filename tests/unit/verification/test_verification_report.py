"""The report of ``verify``: how it collects and shows outcomes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from partition_ops.errors import StorageError, VerificationError
from partition_ops.formats.findings import Findings
from partition_ops.formats.format import format_names, get_formats
from partition_ops.verification.verification_report import (
    CHECKS,
    MOST_DETAILS,
    VerifyReport,
    all_checks,
    make_report,
)


def all_begun() -> Findings:
    findings = Findings()
    for name in CHECKS:
        with findings.check(name):
            pass
    return findings


def report_of(findings: Findings) -> VerifyReport:
    return make_report(findings, CHECKS, "in", "out")


def outcome(report: VerifyReport, name: str) -> str:
    return next(check.detail for check in report.checks if check.name == name)


def test_a_report_without_failures() -> None:
    report = report_of(all_begun())
    assert report.passed
    assert report.summary().endswith(f"{len(CHECKS)} of {len(CHECKS)} checks passed for out")
    assert json.loads(json.dumps(report.to_json()))["passed"] is True


def test_a_check_that_never_ran_has_not_passed() -> None:
    findings = Findings()
    with findings.check("schema"):
        pass
    assert [check.name for check in report_of(findings).failed] == [c for c in CHECKS if c != "schema"]


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        (["edge-ends", "manifest-input"], "the input is not as the manifest lists it"),
        (["edge-ends", "manifest-input", "manifest-artifacts"], "Do not train on it"),
        (["edge-ends"], "Do not train on it"),
    ],
)
def test_an_input_that_has_changed_is_not_blamed_on_the_output(broken: list[str], said: str) -> None:
    findings = all_begun()
    for name in broken:
        findings.fail(name, "differs")
    with pytest.raises(VerificationError, match=f"out breaks {len(broken)} of") as error:
        report_of(findings).raise_for_failures()
    assert said in str(error.value.remedy)


def test_an_exception_is_a_failure_and_the_rest_goes_on() -> None:
    findings = all_begun()
    with findings.check("schema"):
        raise KeyError("nid")
    report = report_of(findings)
    assert [check.name for check in report.failed] == ["schema"]
    assert "KeyError: 'nid'" in outcome(report, "schema")


def test_a_storage_error_is_no_failure_of_the_output() -> None:
    with pytest.raises(StorageError), Findings().check("schema"):
        raise StorageError("no permission")


def test_the_first_place_that_differs_is_named() -> None:
    findings = all_begun()
    assert not findings.equal("edge-ids", "part 0", np.array([1, 2, 3]), np.array([1, 5, 6]))
    assert outcome(report_of(findings), "edge-ids") == ("part 0: row 1 is 2, expected 5 (2 of 3 differ)")


def test_a_check_tells_its_first_failures_and_counts_the_rest() -> None:
    findings = all_begun()
    for part in range(MOST_DETAILS + 2):
        findings.fail("fields", f"part {part} is wrong")
    text = outcome(report_of(findings), "fields")
    assert text.startswith("part 0 is wrong; part 1 is wrong")
    assert text.endswith("and 2 more")
    assert f"part {MOST_DETAILS} " not in text


def test_a_message_is_shown_once() -> None:
    findings = all_begun()
    for name in ("fields", "fields", "figures", "figures"):
        findings.fail(name, "the manifest is damaged")
    findings.fail("figures", "a count is wrong")
    report = report_of(findings)
    assert outcome(report, "fields") == "the manifest is damaged"
    assert outcome(report, "figures") == "a count is wrong; see the check 'fields'"


def test_messages_that_others_show_hide_none_of_a_check() -> None:
    findings = all_begun()
    for number in range(MOST_DETAILS + 2):
        findings.fail("fields", f"file {number}")
        findings.fail("figures", f"file {number}")
    findings.fail("figures", "a count is wrong")
    report = report_of(findings)
    assert outcome(report, "fields").endswith("; and 2 more")
    shown = f"a count is wrong; file {MOST_DETAILS}; file {MOST_DETAILS + 1}; see the check 'fields'"
    assert sorted(outcome(report, "figures").split("; ")) == sorted(shown.split("; "))


def test_the_guide_lists_every_check() -> None:
    guide = (Path(__file__).parents[3] / "docs/verify.md").read_text()
    listed = [line.split("`")[1] for line in guide.splitlines() if line.startswith("| `")]
    assert listed == [*all_checks(get_formats(format_names()))]
