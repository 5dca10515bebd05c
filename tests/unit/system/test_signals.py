"""The clean-ups that a signal runs, and their order."""

from __future__ import annotations

import signal

import pytest

from partition_ops.system import signals
from partition_ops.system.signals import SignalHandler, register_cleanup


@pytest.fixture(autouse=True)
def no_cleanups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Isolate the registry of clean-ups."""
    monkeypatch.setattr(signals, "_first_cleanups", [])
    monkeypatch.setattr(signals, "_last_cleanups", [])


def test_a_command_that_a_signal_ends_runs_the_clean_ups_in_order(
    capfd: pytest.CaptureFixture[str],
) -> None:
    called: list[str] = []
    register_cleanup(lambda: called.append("folders"), after_children=True)
    register_cleanup(lambda: called.append("locks"))
    with SignalHandler(as_json=True) as handler:
        handler.unwind_on_signal()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGTERM)
        assert handler.finish() == 128 + signal.SIGTERM
    assert called == ["locks", "folders"]
    text = "ended by SIGTERM; finished work is kept, and the same command resumes from there"
    assert capfd.readouterr() == (f'{{"error": {{"problem": "{text}"}}}}\n', f"partition-ops: {text}\n")


def test_an_interrupt_without_a_signal_cleans_nothing_up() -> None:
    """A test runner, for example, raises KeyboardInterrupt by itself, and its process goes on."""
    called: list[str] = []
    register_cleanup(lambda: called.append("locks"))
    with SignalHandler(as_json=False) as handler:
        assert handler.finish() == 128 + signal.SIGINT
    assert called == []
