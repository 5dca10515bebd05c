"""The command line writes the bytes recorded in ``tests/golden/same_bytes.json``.

`tests.golden.make_same_bytes` has the cases, lists the fields that are not compared, and renews the digests.
"""

from __future__ import annotations

from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest

from tests.golden.make_same_bytes import CASES, missing_for_parmetis, read_golden, run_case, versions

# Globs of files that newer versions add, relative to the folder of a case, such as "out/idmap/*/new.parquet".
ADDED: tuple[str, ...] = ("*/convert/book.json", "*/partition-ops.json")

RENEW = "To renew the digests: python -m tests.golden.make_same_bytes"

needs_parmetis = pytest.mark.skipif(
    missing_for_parmetis() is not None, reason=f"needs ParMETIS over MPI: {missing_for_parmetis()}"
)


@pytest.fixture(scope="module")
def golden() -> dict[str, Any]:
    return read_golden()


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[needs_parmetis] * case.parmetis) for name, case in CASES.items()]
)
def test_the_bytes_are_the_same(name: str, golden: dict[str, Any], tmp_path: Path) -> None:
    found, expected = run_case(CASES[name], tmp_path), golden["cases"][name]
    assert found["inputs"] == expected["inputs"], f"the inputs differ. {_hint(golden)}"
    assert found["exit_codes"] == expected["exit_codes"]
    problems = differences(found["files"], expected["files"])
    assert not problems, "\n".join([*problems, _hint(golden)])


def differences(found: dict[str, str], expected: dict[str, str], added: tuple[str, ...] = ADDED) -> list[str]:
    """Return a line for each file that is missing, changed, or new and not in `added`."""
    new = [key for key in found if key not in expected and not any(fnmatch(key, glob) for glob in added)]
    changed = [key for key in found if key in expected and found[key] != expected[key]]
    missing = [key for key in expected if key not in found]
    kinds = {"missing": missing, "changed": changed, "new": new}
    return [f"{kind}: {key}" for kind, keys in kinds.items() for key in keys]


def _hint(golden: dict[str, Any]) -> str:
    recorded, present = golden["versions"], versions()
    other = [
        f"{name} {present[name]} instead of {recorded[name]}"
        for name in recorded
        if present.get(name) != recorded[name]
    ]
    return f"{RENEW}. {'Other versions: ' + ', '.join(other) + '.' if other else ''}"


def test_every_case_has_digests(golden: dict[str, Any]) -> None:
    assert [*golden["cases"]] == [*CASES], RENEW
    for record in golden["cases"].values():
        assert record["files"]
        assert not any(record["exit_codes"])


@pytest.mark.parametrize(
    ("found", "expected", "problems"),
    [
        ({"a": "1"}, {"a": "1"}, []),
        ({"a": "1"}, {"a": "2"}, ["changed: a"]),
        ({}, {"a": "2"}, ["missing: a"]),
        ({"a": "1", "b": "1"}, {"a": "1"}, ["new: b"]),
        ({"a": "1", "added": "1"}, {"a": "1"}, []),
    ],
)
def test_differences(found: dict[str, str], expected: dict[str, str], problems: list[str]) -> None:
    assert differences(found, expected, added=("add*",)) == problems
