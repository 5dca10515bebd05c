"""`Verb`, a verb of the command line, and `ListedVerb`, which stands for it in lists."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from partition_ops.cli.console import Console


def _no_arguments(parser: argparse.ArgumentParser) -> None:
    pass


def _not_a_verb(arguments: argparse.Namespace, console: Console) -> Any:
    raise NotImplementedError("this verb takes another verb")


@dataclass
class ListedVerb:
    """A verb in a list: what is known of it before its module is imported.

    Attributes:
        name: The verb.
        summary: One line for the list of verbs.
        find: Returns the verb; it may import its module.
    """

    name: str
    summary: str
    find: Callable[[], Verb]

    @cached_property
    def verb(self) -> Verb:
        return self.find()


@dataclass(kw_only=True)
class Verb:
    """A verb of the command line.

    Attributes:
        description: What the verb does, for its ``--help``.
        add_arguments: Adds the arguments that are not declared options.
        options: Dataclasses whose declared options the verb takes.
        only: Names of the options that it takes; None means all of them.
        defaults: Defaults that differ from the declared ones.
        execute: Does the work and returns what ``--json`` prints.
        verbs: The verbs that must follow, of a verb such as ``idmap``.
        default: Name of the one of them that is meant if none follows.
    """

    description: str
    add_arguments: Callable[[argparse.ArgumentParser], None] = _no_arguments
    options: tuple[type, ...] = ()
    only: Collection[str] | None = None
    defaults: Mapping[str, Any] = field(default_factory=dict)
    execute: Callable[[argparse.Namespace, Console], Any] = _not_a_verb
    verbs: tuple[ListedVerb, ...] = ()
    default: str = ""
