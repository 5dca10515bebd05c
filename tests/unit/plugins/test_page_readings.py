"""Readings of the pages of graphs: limits, and errors of the form in words."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException
from graph_partitioning.operators.params import check_params
from graph_partitioning.options import form, unknown_params
from graph_partitioning.page import readings
from graph_partitioning.page.checks import check_options, in_words
from graph_partitioning.page.graphs import Graph
from graph_partitioning.page.readings import NotYet, read_figures, within
from jsonschema import Draft202012Validator

from partition_ops.errors import InvalidInputError
from partition_ops.storage import StorageSettings


def test_a_function_that_takes_too_long_is_not_waited_for() -> None:
    go = threading.Event()
    with pytest.raises(NotYet):
        within(time.monotonic() + 0.05, lambda: go.wait(60))
    go.set()
    assert within(time.monotonic() + 60, lambda: 7) == 7
    with pytest.raises(TimeoutError, match="its own"):
        within(time.monotonic() + 60, lambda: (_ for _ in ()).throw(TimeoutError("its own")))


def test_requests_share_a_reading_until_it_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    go, calls = threading.Event(), []

    def slow(root: object) -> list[Any]:
        calls.append(root)
        assert go.wait(60)
        return [{"run": "one"}]

    monkeypatch.setattr(readings, "read_index", slow)
    place = (None, str(tmp_path / "graph"))
    first, second = read_figures([place])[place], read_figures([place])[place]
    assert first is second and not first.done()
    go.set()
    assert first.result(60).entries == [{"run": "one"}]
    assert read_figures([place], reuse=True)[place] is first
    assert read_figures([place])[place].result(60).entries
    assert len(calls) == 2
    monkeypatch.setattr(readings, "REUSE_SECONDS", -1.0)
    assert read_figures([place], reuse=True)[place].result(60).entries
    assert len(calls) == 3


def test_graphs_that_cannot_be_read_say_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "latest.json").write_text("[]")
    bad, outside = (None, str(tmp_path)), (None, "/elsewhere/graph")
    monkeypatch.setenv("PARTITION_OPS_ALLOWED_ROOTS", str(tmp_path.parent))
    found = read_figures([bad, outside])
    assert found[bad].result(60).problem
    assert "/elsewhere" in found[outside].result(60).problem

    def unexpected(root: object) -> list[Any]:
        raise (InvalidInputError("broken") if str(tmp_path) not in str(root) else ZeroDivisionError)

    monkeypatch.setattr(readings, "read_index", unexpected)
    monkeypatch.setattr(threading, "excepthook", lambda args: None)
    assert "unexpected" in read_figures([bad])[bad].result(60).problem


def test_a_reading_uses_the_connections_of_the_last_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stores: list[Any] = []
    monkeypatch.setattr(readings, "read_index", lambda root: stores.append(root) or [])
    place = (None, str(tmp_path / "graph"))
    key = (None, str(tmp_path))
    for _ in range(2):
        assert read_figures([place])[place].result(60).problem == ""
        wait_until(lambda: not readings._readers[key].busy)
    first = readings._readers[key]
    assert len(stores) == 2 and first.store.uri == str(tmp_path)
    first.settings = StorageSettings()  # as if the connection had been changed
    read_figures([place])[place].result(60)
    second = readings._readers[key]
    assert second is not first
    with pytest.raises(RuntimeError, match="shutdown"):
        first.pool.submit(print)
    wait_until(lambda: not second.busy)
    monkeypatch.setattr(readings, "KEPT_SECONDS", -1.0)
    read_figures([place])[place].result(60)
    assert readings._readers[key] is not second


def wait_until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_unknown_params_are_named_with_the_nearest_one() -> None:
    assert unknown_params(["num_parts"], ["num_parts"]) == ""
    assert unknown_params(["num_parts", "openlineage"], form()) == ""
    assert unknown_params(["num_part"], form()) == "There is no param 'num_part', did you mean 'num_parts'?"
    assert unknown_params(["xyzzy"], form()) == "There is no param 'xyzzy'"


class _Run:
    def __init__(self, conf: dict[str, Any]) -> None:
        self.conf = conf
        self.params = form()


@pytest.mark.parametrize("conf", [{}, {"num_parts": 3}])
def test_known_params_begin_a_run(conf: dict[str, Any]) -> None:
    check_params({"dag_run": _Run(conf), "dag": _Run({})})  # type: ignore[typeddict-item]


def test_unknown_params_end_it() -> None:
    with pytest.raises(AirflowFailException, match="num_parts"):
        check_params({"dag_run": _Run({"num_part": 3}), "dag": _Run({})})  # type: ignore[typeddict-item]


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("num_parts", 0, "This must be at least 1."),
        ("num_parts", "x", "This must be a whole number."),
        ("max_edge_cut", "x", "This must be empty or a number."),
        ("approval_hours", 0, "This must be more than 0."),
        ("engine", "best", "This must be one of: "),
        ("input_uri", "", "A value is needed."),
        ("input_uri", "x", "'x' does not have the form"),
        ("approval", "x", "This must be true or false."),
    ],
)
def test_errors_of_params_are_sentences(name: str, value: Any, text: str) -> None:
    (error,) = Draft202012Validator(form()[name]).iter_errors(value)
    assert in_words(error).startswith(text)


def test_an_error_of_an_option_is_that_of_its_field() -> None:
    defaults = {name: field.get("default") for name, field in form().items()}
    assert check_options(defaults) == {}
    wrong = check_options({**defaults, "num_parts": 4, "target_shares": "0.5,0.6"})
    assert wrong["target_shares"].startswith("'Shares of the partitions' (target_shares) does not fit")


@pytest.mark.parametrize(
    ("uri", "name"),
    [
        ("s3://graphs/input/shop/graph.yaml", "shop"),
        ("s3://graphs/input/shop/graph.bin", "shop"),
        ("s3://graphs/input/shop", "shop"),
        ("/graph.yaml", "graph.yaml"),  # there is no folder that could name it
    ],
)
def test_a_graph_that_no_run_has_read_has_the_name_of_its_folder(uri: str, name: str) -> None:
    assert Graph("s3://graphs/output", None, unnamed=uri).name == name
