"""Arguments of the command line, made from declarations of options."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any, TypeVar

from partition_ops.options.declare import REQUIRED, Option, by_section, check_companions, options_of
from partition_ops.options.values import build, parse_single, parse_text, show_value

Config = TypeVar("Config")
DECLARED = "declared_options"  # attribute of the parsed arguments
GIVEN = "given_options"  # the same


class _Once(argparse.Action):
    """An action that rejects an option that the command line already has."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        given: set[str] = vars(namespace).setdefault(GIVEN, set())
        if option_string is not None and self.dest in given:
            several = self.nargs == "+"
            raise argparse.ArgumentError(
                self,
                "it is there more than once; "
                + (f"give all values after one {option_string}" if several else "give it once"),
            )
        given.add(self.dest)
        super().__call__(parser, namespace, values, option_string)


class _StoreOnce(_Once, argparse._StoreAction):
    pass


class _StoreTrueOnce(_Once, argparse._StoreTrueAction):
    pass


class _SwitchOnce(_Once, argparse.BooleanOptionalAction):
    pass


def take_options_once(parser: argparse.ArgumentParser) -> None:
    """Make a parser reject an option that is there twice, unless each time adds a value.

    Without it, the last value would silently win. Call it before arguments are added.
    """
    for name in (None, "store"):
        parser.register("action", name, _StoreOnce)
    parser.register("action", "store_true", _StoreTrueOnce)


def add_options(
    parser: argparse.ArgumentParser,
    *classes: type,
    defaults: Mapping[str, Any] | None = None,
    only: Collection[str] | None = None,
) -> None:
    """Add an argument for each option, grouped by section.

    Args:
        parser: Parser of a verb.
        classes: Dataclasses with declared options.
        defaults: Defaults of this verb that differ from the declared ones, by the names of the options.
        only: Names of the options to add; None adds all.
    """
    options = [one for one in options_of(*classes) if only is None or one.name in only]
    for section, members in by_section(options).items():
        group = parser.add_argument_group(section.lower()) if section else parser
        for one in members:
            _add(group, one, (defaults or {}).get(one.name, argparse.SUPPRESS))
    parser.set_defaults(**{DECLARED: options})


def _add(group: argparse._ActionsContainer, one: Option, default: Any) -> None:
    words: dict[str, Any] = {"dest": one.name, "help": help_text(one, default), "default": default}
    if one.type is bool:
        words["action"] = "store_true" if default is argparse.SUPPRESS else _SwitchOnce
        group.add_argument(one.option_string, **words)
        return
    words["metavar"] = one.metavar or (f"{{{','.join(one.allowed)}}}" if one.choices else None)
    words["required"] = one.default is REQUIRED
    if one.by_key is not None:
        words |= {"action": "append", "type": _converter(one.parse or str)}
    elif one.many and one.several == "repeat":
        words |= {"action": "append", "type": _converter(partial(parse_single, one))}
    elif one.many and one.several == "words":
        words |= {"nargs": "+", "type": _converter(partial(parse_single, one))}
    else:
        words["type"] = _converter(partial(parse_text, one))
    group.add_argument(one.option_string, **words)


def _converter(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    def convert(text: str) -> Any:
        try:
            return parse(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return convert


def help_text(option: Option, default: Any = argparse.SUPPRESS) -> str:
    """Return the help of an option, with its choices by key and its default."""
    parts = [option.help]
    if option.by_key is not None:
        keys = "; ".join(f"{key}: {', '.join(one.allowed)}" for key, one in option.by_key().items())
        parts.append(f"Choices, the default first: {keys}.")
    elif option.default is not REQUIRED and option.type is not bool:
        shown = option.empty if option.default is None else show_value(option, option.default)
        parts += [f"Default: {shown}."] if shown else []
    elif default is not argparse.SUPPRESS:
        parts.append(f"Default: {option.option_string if default else 'no'}.")
    return " ".join(parts).replace("%", "%%")


def command_line_options(arguments: argparse.Namespace, *classes: type) -> dict[str, Any]:
    """Return the values of the options on the command line, by their names."""
    values = {}
    for one in options_of(*classes):
        if hasattr(arguments, one.name):
            value = getattr(arguments, one.name)
            if one.by_key is not None:
                value = {key: action for actions in value for key, action in actions.items()}
            values[one.name] = tuple(value) if one.many else value
    return values


def config_of(arguments: argparse.Namespace, cls: type[Config], **more: Any) -> Config:
    """Make a configuration from the command line.

    Raises:
        UsageError: A value is out of range or not among the choices.
    """
    return build(cls, {**command_line_options(arguments, cls), **more})


def check_arguments(arguments: argparse.Namespace) -> None:
    """Reject options on the command line that lack another option that they need.

    Raises:
        UsageError: Names the options and the one that they need.
    """
    options: list[Option] = getattr(arguments, DECLARED, [])
    asked = {one.name for one in options if hasattr(arguments, one.name)}
    values = {one.name: getattr(arguments, one.name, one.default) for one in options}
    check_companions(options, asked, values)
