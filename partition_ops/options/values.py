"""Values of options from text and from flat settings."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, TypeVar

from partition_ops.errors import UsageError
from partition_ops.options.declare import KINDS, MOST_TASKS, Option, groups, option, options_of, own_options

Config = TypeVar("Config")
LEAST_SIZE = 1 << 20
UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
WORDS = {"true": True, "false": False}


def build(cls: type[Config], values: Mapping[str, Any]) -> Config:
    """Make a configuration from values by the names of options; others are ignored, absent ones default."""
    fields = {one.field: values[one.name] for one in own_options(cls) if one.name in values}
    return cls(**fields, **{field: build(group, values) for field, group in groups(cls).items()})


def parse_settings(cls: type, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Parse the settings that are options of a configuration.

    Args:
        cls: Class of the configuration.
        settings: Values by the names in the form: text, or values of their types. Empty text and None leave
            an option out.

    Returns:
        Values by the names of options, for `build`.

    Raises:
        UsageError: A text has no value of its option.
    """
    texts = {name: value for name, value in settings.items() if value is not None and value != ""}
    values = {
        one.name: parse_value(one, texts[one.form_name]) for one in options_of(cls) if one.form_name in texts
    }
    for one in options_of(cls):
        keys = {} if one.by_key is None else one.by_key()
        chosen = {key: texts[choice.name] for key, choice in keys.items() if choice.name in texts}
        if chosen:
            values[one.name] = chosen
    return values


def parse_value(option: Option, value: Any) -> Any:
    """Return the value of an option from text, such as a template gives; other values stay as they are.

    Raises:
        UsageError: The text has no such value.
    """
    try:
        return parse_text(option, value)
    except ValueError as error:
        raise UsageError(f"{option.option_string}: {error}", found=repr(value)) from None


def parse_text(option: Option, value: Any) -> Any:
    """Return the value of an option from text, with commas if it takes several; other values stay.

    Raises:
        ValueError: The text has no such value; the message is a sentence.
    """
    if not option.many:
        return parse_single(option, value)
    if isinstance(value, str):
        value = [item.strip() for item in value.split(",")]
    items = value if isinstance(value, Sequence) else [value]
    return tuple(parse_single(option, item) for item in items)


def parse_single(option: Option, value: Any) -> Any:
    """Return a single value of an option from text; other values stay as they are.

    Raises:
        ValueError: The text has no such value; the message is a sentence.
    """
    if not isinstance(value, str) or option.by_key is not None:
        return value
    if option.parse is not None:
        return option.parse(value)
    try:
        return WORDS[value.lower()] if option.type is bool else option.type(value)
    except (ValueError, KeyError):
        raise ValueError(f"{value!r} is not {KINDS[option.type][1]}") from None


def parse_size(text: str) -> int:
    """Return the bytes of a size such as ``512M`` or ``4G``."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMGT]?)i?B?", text.strip(), re.IGNORECASE)
    if match is None or float(match[1]) == 0:
        raise ValueError(f"{text!r} is not a size, such as 512M or 4G")
    size = int(float(match[1]) * 1024 ** " KMGT".index(match[2].upper() or " "))
    if size < LEAST_SIZE:
        raise ValueError(f"{text!r} is less than 1M: add a unit, such as 512M or 4G")
    return size


def memory_option(
    effect: str = "", *, help: str = "", empty: str = "all that the machine or the container has"
) -> Any:
    """Declare the option ``memory`` of a stage or a job; the result does not depend on it.

    Args:
        effect: What the bound does, as a sentence.
        help: Used instead of the common text.
        empty: As for `option`.
    """
    return option(
        None,
        help=help
        or f"Memory that the command and its child processes may take, such as 512M or 4G. {effect} The"
        " result does not depend on the option.",
        title="Memory",
        section="More",
        metavar="SIZE",
        minimum=1,
        parse=parse_size,
        empty=empty,
        form=None,
        recorded=False,
    )


def tasks_option(stage: str, default: int | None, help: str, *, empty: str = "") -> Any:
    """Declare how many tasks a stage is split into; the result does not depend on it."""
    return option(
        default,
        help=help,
        title=f"Tasks of {stage}",
        section="More",
        metavar="N",
        minimum=1,
        maximum=MOST_TASKS,
        empty=empty,
        recorded=False,
    )


def parse_time(text: str) -> timedelta:
    """Return a length of time such as ``12h`` or ``7d``."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([mhdw])", text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not a length of time, such as 12h or 7d")
    try:
        return timedelta(**{UNITS[match[2]]: float(match[1])})
    except OverflowError:
        raise ValueError(f"{text!r} is too long") from None


def show_value(option: Option, value: Any, *, comma: bool = False) -> str:
    """Return the text of a value, as it is typed on the command line; ``""`` for None.

    Args:
        option: The option.
        value: Its value.
        comma: Separate several values by commas, as in the form, even if the command line has words.
    """
    if value is None:
        return ""
    if option.show is not None:
        return option.show(value)
    if option.many:
        return (" " if option.several == "words" and not comma else ",").join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)
