"""Declarations of options: fields of frozen dataclasses whose metadata is an `Option`.

Everything that offers an option is made from its declaration: the arguments of the command line
(`arguments`), the arguments of operators and the values that templates give them (`values`), the form of the
DAG and the JSON Schemas of settings (`json_schema`), and the tables in the docs (`table`). `StageConfig`
declares the options that every stage takes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import isfinite
from numbers import Integral, Real
from types import NoneType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from partition_ops.errors import UsageError

OPTION, GROUP = "option", "group"
SECTIONS = (
    "",
    "Balance",
    "Training",
    "Growth",
    "MPI",
    "Engine parmetis",
    "Publishing",
    "More",
)  # in this order; others follow
REQUIRED: Any = object()
MOST_PARTS = 65536
MOST_TASKS = 64  # that a stage is split into; between them there is an object for each pair of tasks
# a root in a form or a list; the command line also takes relative paths
ROOT_PATTERN = r"^(s3://[^/\s]+(/.*)?|file:///.*|/.*)$"


@dataclass(frozen=True, kw_only=True)
class Option:
    """The declaration of one option."""

    help: str  # what the option does, in whole sentences. They do not mention the default
    title: str = ""  # label in the form of the DAG
    section: str = ""  # heading in the form, in ``--help`` and in the docs; ``""`` is the first group
    metavar: str | None = None  # placeholder of the value in ``--help``
    minimum: float | None = None  # least value
    maximum: float | None = None  # largest value
    above: float | None = None  # bound that a value must exceed
    # allowed values, or a function that returns them
    choices: Sequence[str] | Callable[[], Sequence[str]] = ()
    empty: str = ""  # what happens if a value that may be None is left out
    # the option is rejected without this one: ``"previous"``, or ``"engine=parmetis|two-level"`` if that one
    # must have one of these values. Verbs and configurations that do not have it do not check this
    only_with: str = ""
    # makes a value from text; raises ValueError with a sentence. If it is None, the type decides
    parse: Callable[[str], Any] | None = None
    show: Callable[[Any], str] | None = None  # makes text from the default
    # how ``--help`` takes several values: ``commas`` (``A,B``), ``words`` (``A B``) or ``repeat`` (the option
    # is repeated)
    several: Literal["commas", "words", "repeat"] = "commas"
    flag: str = ""  # name on the command line, without dashes
    # what differs in the form of the DAG: JSON Schema keywords, and ``name``, ``default``, ``section`` and
    # ``description``. If it is None, the option is not in the form
    form: Mapping[str, Any] | None = dataclasses.field(default_factory=dict)
    # for an option with a choice for each of several keys: a function that returns an `Option` for each key,
    # by the name of its param in the form
    by_key: Callable[[], Mapping[str, Option]] | None = None
    recorded: bool = True  # whether the result depends on it, so that it is part of the record of a stage
    name: str = ""  # name of the option; unique in a verb and in the form
    field: str = ""  # name of the field
    # type of a single value: ``int``, ``float``, ``bool``, ``str`` or another that ``parse`` makes
    type: Any = str
    many: bool = False  # whether the value is a tuple
    nullable: bool = False  # whether the value may be None
    default: Any = REQUIRED  # value if the option is left out; `REQUIRED` if it must not be

    @property
    def option_string(self) -> str:
        """The option on the command line, such as ``--num-parts``."""
        return "--" + (self.flag or self.name).replace("_", "-")

    @property
    def form_name(self) -> str:
        """Name in the form and in Airflow's operators."""
        return str((self.form or {}).get("name", self.name))

    @property
    def form_section(self) -> str:
        """Section in the form."""
        return str((self.form or {}).get("section", self.section))

    @property
    def allowed(self) -> tuple[str, ...]:
        """The allowed values; empty if there is no list of them."""
        return tuple(self.choices() if callable(self.choices) else self.choices)

    @property
    def range(self) -> str:
        """The bounds in words."""
        if self.above is not None:
            return f"above {self.above}" + (f", up to {self.maximum}" if self.maximum is not None else "")
        if self.minimum is None:
            return f"up to {self.maximum}" if self.maximum is not None else ""
        return f"{self.minimum} or more" if self.maximum is None else f"{self.minimum} to {self.maximum}"


def option(default: Any = REQUIRED, *, help: str, **declared: Any) -> Any:
    """Declare a field of a dataclass as an option.

    Args:
        default: Value if the option is left out; without it the option is required.
        help: What the option does.
        declared: Further attributes of `Option`.
    """
    metadata = {OPTION: Option(help=help, **declared)}
    return dataclasses.field(
        default=dataclasses.MISSING if default is REQUIRED else default, metadata=metadata
    )


def option_group(cls: type) -> Any:
    """Declare a field whose value is a dataclass with options of its own; they have no prefix."""
    return dataclasses.field(default_factory=cls, metadata={GROUP: cls})


class Options:
    """Base of the dataclasses that declare options; values are checked once, when one is made."""

    def __post_init__(self) -> None:
        check_values(self)


_found: dict[type, tuple[Option, ...]] = {}  # annotations are slow to resolve


def own_options(cls: type[Any]) -> tuple[Option, ...]:
    """Return the options that are fields of a dataclass, without those of its groups."""
    if cls not in _found:
        hints = get_type_hints(cls)
        _found[cls] = tuple(
            _with_type(field.metadata[OPTION], field, hints[field.name])
            for field in dataclasses.fields(cls)
            if OPTION in field.metadata
        )
    return _found[cls]


def groups(cls: type) -> dict[str, type]:
    """Return the option groups of a dataclass, by the name of the field."""
    return {field.name: field.metadata[GROUP] for field in dataclasses.fields(cls) if GROUP in field.metadata}


def options_of(*classes: type) -> tuple[Option, ...]:
    """Return the options of dataclasses and of their groups, in the order of the fields, each name once."""
    found: dict[str, Option] = {}
    for cls in classes:
        own, inner = {one.field: one for one in own_options(cls)}, groups(cls)
        for field in dataclasses.fields(cls):
            here = options_of(inner[field.name]) if field.name in inner else ()
            for one in (own[field.name],) if field.name in own else here:
                found.setdefault(one.name, one)
    return tuple(found.values())


def by_section(options: Sequence[Option], *, form: bool = False) -> dict[str, list[Option]]:
    """Return options by their section, or by that in the form, in the order of `SECTIONS`."""
    found: dict[str, list[Option]] = {section: [] for section in SECTIONS}
    for one in options:
        found.setdefault(one.form_section if form else one.section, []).append(one)
    return {section: members for section, members in found.items() if members}


def _with_type(declared: Option, field: dataclasses.Field[Any], hint: Any) -> Option:
    nullable = NoneType in get_args(hint)
    kind = next(kind for kind in get_args(hint) if kind is not NoneType) if nullable else hint
    many = get_origin(kind) is tuple
    if many:
        kind = get_args(kind)[0]
    choices = declared.choices
    if get_origin(kind) is Literal:
        choices, kind = get_args(kind), str
    return dataclasses.replace(
        declared,
        name=declared.name or field.name,
        field=field.name,
        type=kind,
        many=many,
        nullable=nullable,
        choices=choices,
        default=REQUIRED if field.default is dataclasses.MISSING else field.default,
    )


def check_values(config: Any) -> None:
    """Check the options of a dataclass against their declarations.

    Raises:
        UsageError: A value has another type, is out of range or is not among the choices, or an option is
            set without the one that it needs.
    """
    options = own_options(type(config))
    values = {one.name: getattr(config, one.field) for one in options}
    for one in options:
        value = values[one.name]
        if one.by_key is not None or (value is None and one.nullable):
            continue
        if one.many and (isinstance(value, str) or not isinstance(value, Sequence)):
            raise UsageError(f"{one.option_string} is not a list", found=repr(value), expected="a tuple")
        if one.many and not value and one.default != ():
            raise UsageError(f"{one.option_string} is empty", expected=_expected(one))
        for item in value if one.many else [value]:
            _check_single(one, item)
    asked = {one.name for one in options if values[one.name] != one.default}
    check_companions(options, asked, values)


KINDS: dict[Any, tuple[Any, str]] = {
    bool: (bool, "true or false"),
    int: (Integral, "a whole number"),
    float: (Real, "a number"),
    str: (str, "text"),
}


def _check_single(one: Option, value: Any) -> None:
    kind, noun = KINDS.get(one.type, (object, ""))
    if not isinstance(value, kind) or (isinstance(value, bool) and one.type is not bool):
        raise UsageError(f"{one.option_string} is not {noun}", found=repr(value), expected=_expected(one))
    if one.choices and value not in one.allowed:
        raise UsageError(f"{one.option_string} cannot be {value!r}", expected=_expected(one))
    if (
        (isinstance(value, float) and not isfinite(value))
        or not (one.minimum is None or value >= one.minimum)
        or not (one.maximum is None or value <= one.maximum)
        or not (one.above is None or value > one.above)
    ):
        raise UsageError(f"{one.option_string} is out of range", found=value, expected=_expected(one))


def _expected(one: Option) -> str:
    if one.choices:
        return ("one or more of " if one.many else "one of ") + ", ".join(one.allowed)
    noun = KINDS.get(one.type, (None, "a value"))[1]
    return (
        f"{noun}, {one.range}" if one.range.endswith("or more") and one.type is float else one.range or noun
    )


def check_companions(options: Sequence[Option], asked: set[str], values: Mapping[str, Any]) -> None:
    """Reject options that mean nothing without another one that is not set.

    Args:
        options: All options.
        asked: Names of those that are set.
        values: The value of every option, by name.

    Raises:
        UsageError: Names the option and the one that it needs.
    """
    known = {one.name: one for one in options}
    rules: dict[str, list[str]] = {}
    for one in options:
        if one.name in asked and one.only_with.partition("=")[0] in known:
            rules.setdefault(one.only_with, []).append(one.option_string)
    for rule, dependent in rules.items():
        name, _, wanted = rule.partition("=")
        value, other = values.get(name), known[name].option_string
        if value in wanted.split("|") or (value and not wanted):
            continue
        needed = f"{other} {wanted.replace('|', ' or ')}".rstrip()
        raise UsageError(
            f"{' and '.join(dependent)} {'needs' if len(dependent) == 1 else 'need'} {needed}",
            found=f"{other} {value}" if value else f"no {other}",
            remedy=f"Add {needed}, or leave {' and '.join(dependent)} out.",
        )


@dataclass(frozen=True, kw_only=True)
class StageConfig(Options):
    """Options that every stage takes."""

    graph_name: str | None = option(
        None,
        help="Name of the graph, used instead of the name in metadata.json. It consists of letters, digits"
        " and underscores.",
        title="Graph name",
        section="More",
        metavar="NAME",
        empty="the name in metadata.json",
        form={"pattern": "^[A-Za-z_][A-Za-z0-9_]*$", "maxLength": 200},
    )

    def options(self) -> dict[str, Any]:
        """Return the options that the result depends on as JSON, for records and the manifest."""
        left_out = {one.field for one in own_options(type(self)) if not one.recorded}
        return {name: value for name, value in asdict(self).items() if name not in left_out}
