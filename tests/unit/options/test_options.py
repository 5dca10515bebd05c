"""Declared options: their checks, their values from text, and what is made from them."""

from __future__ import annotations

import argparse
import json
import runpy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest

from partition_ops.errors import UsageError
from partition_ops.options.arguments import add_options, check_arguments, config_of
from partition_ops.options.declare import Option, Options, option, option_group, options_of
from partition_ops.options.json_schema import form_fields
from partition_ops.options.values import build, parse_settings, parse_size

option_table = runpy.run_path(str(Path(__file__).parents[3] / "docs" / "tables.py"))["option_table"]


@dataclass(frozen=True, kw_only=True)
class Oven(Options):
    """A group of options."""

    heat: int = option(200, name="oven_heat", help="Heat.", minimum=50, maximum=300, only_with="bake=slow")


@dataclass(frozen=True, kw_only=True)
class Cake(Options):
    """Options of every kind."""

    layers: int = option(help="Number of layers.", minimum=1, form={"default": 3, "maximum": 9})
    bake: Literal["slow", "fast"] = option("fast", help="How to bake.")
    sugar: float | None = option(None, help="Share of sugar.", above=0, maximum=1, empty="by taste")
    toppings: tuple[str, ...] = option((), help="Toppings.", choices=("nuts", "cream"), several="repeat")
    weights: tuple[float, ...] | None = option(None, help="Weights of the layers.", only_with="sugar")
    iced: bool = option(False, help="With icing.")
    box: int | None = option(None, help="Size of the box.", parse=parse_size, form=None)
    oven: Oven = option_group(Oven)


def parse(*words: str, defaults: dict[str, Any] | None = None) -> Cake:
    parser = argparse.ArgumentParser()
    add_options(parser, Cake, defaults=defaults)
    arguments = parser.parse_args(words)
    check_arguments(arguments)
    return config_of(arguments, Cake)


def test_the_command_line_has_every_option() -> None:
    cake = parse(
        *("--layers", "2", "--bake", "slow", "--sugar", "0.5", "--weights", "1,2.5", "--oven-heat", "60"),
        *("--toppings", "nuts", "--toppings", "cream", "--iced", "--box", "2M"),
    )
    assert cake == Cake(
        **{"layers": 2, "bake": "slow", "sugar": 0.5, "weights": (1.0, 2.5), "toppings": ("nuts", "cream")},
        iced=True,
        box=2 << 20,
        oven=Oven(heat=60),
    )
    assert parse("--layers", "1") == Cake(layers=1)


def test_a_switch_that_is_on_by_default_can_be_turned_off() -> None:
    assert parse("--layers", "1", defaults={"iced": True}).iced
    assert not parse("--layers", "1", "--no-iced", defaults={"iced": True}).iced


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"layers": 0}, "--layers is out of range.*Found: 0.*1 or more"),
        ({"layers": "2"}, "--layers is not a whole number"),
        ({"layers": True}, "--layers is not a whole number"),
        ({"bake": "raw"}, "--bake cannot be 'raw'.*slow, fast"),
        ({"sugar": 0}, "--sugar is out of range.*above 0, up to 1"),
        ({"sugar": float("nan")}, "--sugar is out of range"),
        ({"toppings": ("nuts", "fish")}, "--toppings cannot be 'fish'.*one or more of nuts, cream"),
        ({"toppings": "nuts"}, "--toppings is not a list"),
        ({"weights": ()}, "--weights is empty"),
        ({"weights": (1.0,)}, "--weights needs --sugar"),
        ({"iced": "yes"}, "--iced is not true or false"),
    ],
    ids=str,
)
def test_wrong_values_are_rejected(values: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        Cake(**{"layers": 1, **values})


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--oven-heat", "200"], "--oven-heat needs --bake slow.*Found: --bake fast"),
        (["--weights", "1"], "--weights needs --sugar.*Found: no --sugar"),
    ],
)
def test_an_option_that_needs_another_is_rejected_even_with_its_default(words: list[str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        parse("--layers", "1", *words)


@pytest.mark.parametrize("words", [["--layers", "x"], ["--box", "5"], ["--weights", "1;2"], []])
def test_text_without_a_value_is_wrong_use(words: list[str]) -> None:
    with pytest.raises(SystemExit):
        parse(*words)


def test_settings_may_be_text_or_values() -> None:
    text = {"layers": "2", "bake": "", "sugar": "0.5", "toppings": "nuts, cream", "iced": "True", "other": 1}
    values = {"layers": 2, "sugar": 0.5, "toppings": ["nuts", "cream"], "iced": True, "weights": None}
    assert build(Cake, parse_settings(Cake, text)) == build(Cake, parse_settings(Cake, values))
    assert parse_settings(Cake, {"weights": 2.5}) == {"weights": (2.5,)}
    with pytest.raises(UsageError, match="--iced: 'maybe' is not true or false"):
        parse_settings(Cake, {"iced": "maybe"})


def test_the_form_is_json_schema() -> None:
    fields = form_fields(*options_of(Cake))
    assert json.loads(json.dumps(fields)) == fields
    assert [*fields] == ["layers", "bake", "sugar", "toppings", "weights", "iced", "oven_heat"]
    layers = {name: fields["layers"][name] for name in ("type", "minimum", "maximum", "default")}
    assert layers == {"type": "integer", "minimum": 1, "maximum": 9, "default": 3}
    assert fields["sugar"]["type"] == ["null", "number"]
    assert (fields["sugar"]["exclusiveMinimum"], fields["sugar"]["default"]) == (0, None)
    assert fields["sugar"]["description"] == "Share of sugar. Empty: by taste."
    assert fields["toppings"]["pattern"] == "^(nuts|cream)(, *(nuts|cream))*$"
    assert fields["bake"]["enum"] == ["slow", "fast"]


def test_the_table_has_a_row_for_every_option() -> None:
    table = option_table(options_of(Cake))
    assert len(table) == 2 + len(options_of(Cake))
    assert "| `--sugar` | `sugar` | a number, above 0, up to 1 | by taste | Share of sugar. |" in table
    assert "| `--box` |  | text | none | Size of the box. |" in table


def test_choices_by_key_are_options_of_their_own() -> None:
    def by_key() -> dict[str, Option]:
        return {"smoke": Option(name="on_smoke", help="Fire.", choices=("run", "stay"), default="run")}

    @dataclass(frozen=True, kw_only=True)
    class Alarm(Options):
        on: Any = option("run", help="What to do.", by_key=by_key, parse=lambda text: {"smoke": text})

    assert parse_settings(Alarm, {"on_smoke": "stay"}) == {"on": {"smoke": "stay"}}
    assert form_fields(*options_of(Alarm))["on_smoke"]["enum"] == ["run", "stay"]
    assert len(option_table(options_of(Alarm))) == 4
