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
    """A verb in a list: what is known of it before its module is imported."""

    name: str  # the verb
    summary: str  # one line for the list of verbs
    find: Callable[[], Verb]  # returns the verb; it may import its module

    @cached_property
    def verb(self) -> Verb:
        return self.find()


@dataclass(kw_only=True)
class Verb:
    """A verb of the command line."""

    description: str  # what the verb does, for its ``--help``
    # adds the arguments that are not declared options
    add_arguments: Callable[[argparse.ArgumentParser], None] = _no_arguments
    options: tuple[type, ...] = ()  # dataclasses whose declared options the verb takes
    only: Collection[str] | None = None  # names of the options that it takes; None means all of them
    defaults: Mapping[str, Any] = field(default_factory=dict)  # defaults that differ from the declared ones
    # does the work and returns what ``--json`` prints
    execute: Callable[[argparse.Namespace, Console], Any] = _not_a_verb
    verbs: tuple[ListedVerb, ...] = ()  # the verbs that must follow, of a verb such as ``idmap``
    default: str = ""  # name of the one of them that is meant if none follows
