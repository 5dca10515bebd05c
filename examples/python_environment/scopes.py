"""Scopes of a module: bindings of names, and resolution of dotted names."""

from __future__ import annotations

import ast
import builtins
from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

from examples.python_environment.syntax import NUM_KINDS, Function

ABSOLUTE = -1
BUILTINS = frozenset(dir(builtins))


class Ref(NamedTuple):
    """The target of a name, as far as its own module determines it.

    Attributes:
        anchor: A definition of the module by its number, `ABSOLUTE`, or ``-2 - number`` for the bases of
            a class.
        path: Attributes to follow from there, separated by dots. For `ABSOLUTE`, a module and a colon come
            first: ``import a.b`` finds the module, whatever ``a`` calls ``b`` (sympy has many such pairs).
    """

    anchor: int
    path: str

    def then(self, attributes: str) -> Ref:
        """Return the same with further attributes to follow."""
        between = "." if attributes and self.path and not self.path.endswith(":") else ""
        return Ref(self.anchor, self.path + between + attributes)


UNKNOWN = Ref(ABSOLUTE, "")  # bound to an unknown target
BUILTIN = Ref(ABSOLUTE, "builtins:")


@dataclass(slots=True, eq=False)
class Scope:
    """A module, the body of a class, or a function with its lambdas and comprehensions.

    Attributes:
        parent: The scope around it.
        owner: Number of its definition, -1 for the module.
        is_class: Whether it is the body of a class.
        bindings: What each name is bound to. A definition or an import counts for more than an assignment
            (``try: import x; except ImportError: x = None``), a later one for more than an earlier one.
        calls: Call sites by the dotted name they call.
        other_calls: Call sites of expressions that are not dotted names.
        syntax: Count of nodes by kind.
        receiver: Name of the first parameter of a method.
        receiver_is_class: Whether that parameter is the class, not an instance.
    """

    parent: Scope | None
    owner: int
    is_class: bool = False
    bindings: dict[str, Ref] = field(default_factory=dict)
    calls: Counter[str] = field(default_factory=Counter)
    other_calls: int = 0
    syntax: list[int] = field(default_factory=lambda: [0] * NUM_KINDS)
    receiver: str = ""
    receiver_is_class: bool = False


@dataclass(slots=True, eq=False)
class Definition:
    """A class or a function, by its name in the module and the scopes around and inside it."""

    node: ast.ClassDef | Function
    name: str
    around: Scope
    body: Scope


def refer(scope: Scope, dotted: str, module: str) -> Ref:
    """Resolve a dotted name in a scope; `UNKNOWN` or `BUILTIN` if it has no target."""
    first, _, rest = dotted.partition(".")
    if first == "super()":
        owner = _method_around(scope)
        return Ref(-2 - owner.parent.owner, rest) if owner and owner.parent else UNKNOWN
    found = _look_up(scope, first, rest)
    if found is None:  # in no scope: built in, or from a star import of the module
        found = BUILTIN if first in BUILTINS else Ref(ABSOLUTE, f"{module}:{first}")
    return found if found in (UNKNOWN, BUILTIN) else found.then(rest)


def _look_up(scope: Scope, name: str, rest: str) -> Ref | None:
    """Search like Python: from the inside out, but functions do not see the class body around them."""
    at: Scope | None = scope
    while at is not None:
        if at is scope or not at.is_class:
            if name in at.bindings:
                return at.bindings[name]
            if name == at.receiver and at.parent is not None:
                called = "__call__" if not (rest or at.receiver_is_class) else ""
                return Ref(at.parent.owner, called)
        at = at.parent
    return None


def _method_around(scope: Scope) -> Scope | None:
    at: Scope | None = scope
    while at is not None and not at.receiver:
        at = at.parent
    return at
