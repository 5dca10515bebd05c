"""A defect says where it was raised, because it may not happen again."""

from __future__ import annotations

import pytest

from partition_ops.cli.dispatch import run_verb
from partition_ops.jobs import compile_ahead


def _endless(*_: object, **__: object) -> None:
    _endless()


def test_a_defect_says_where_it_was_raised(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(compile_ahead, "compile_loops", _endless)
    assert run_verb(["compile"]) == 1
    said = capsys.readouterr().err
    assert "unexpected RecursionError" in said and "defect of ours" in said
    assert said.count("test_defects.py, line 12, in _endless") == 10
