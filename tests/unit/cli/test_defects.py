"""A defect says where it was raised, because it may not happen again."""

from __future__ import annotations

import re

import pytest

from partition_ops.cli.dispatch import run_verb
from partition_ops.jobs import compile_ahead


def _deep(*_: object, calls: int = 20, **__: object) -> None:
    # does not exceed the limit itself: in Python 3.13 that took all memory of the machine
    if calls == 0:
        raise RecursionError("maximum recursion depth exceeded")
    _deep(calls=calls - 1)


def test_a_defect_says_where_it_was_raised(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(compile_ahead, "compile_loops", _deep)
    assert run_verb(["compile"]) == 1
    said = capsys.readouterr().err
    assert "unexpected RecursionError" in said and "defect of ours" in said
    calls = re.findall(r"test_defects.py, line (\d+), in _deep", said)
    assert calls == ["16"] + 9 * ["17"]
