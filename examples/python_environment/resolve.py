"""Resolve names across modules: imports, re-exports, star imports, attributes of classes.

Only the source is read; no code is run. Names that are set at run time (attributes of objects,
``__getattr__`` of modules, classes made by functions) stay unresolved.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

from examples.python_environment.parse import ParsedModule
from examples.python_environment.scopes import ABSOLUTE, Ref

MODULE, CLASS, FUNCTION = "module", "class", "function"


class Symbol(NamedTuple):
    """A module, class or function of the environment.

    Attributes:
        kind: `MODULE`, `CLASS` or `FUNCTION`.
        number: Its number among all of its kind; -1 for a folder that is a package without a file.
        name: Dotted name of a module; nothing for others.
    """

    kind: str
    number: int
    name: str = ""


class Resolver:
    """Resolves names over all modules.

    Attributes:
        modules: The modules, by number.
        number_of: Number of each module by name.
        first_function: By module, the number of its first function; the number of all at the end.
        first_class: The same for classes.
    """

    def __init__(self, modules: Sequence[ParsedModule]) -> None:
        self.modules = modules
        self.number_of = {module.name: number for number, module in enumerate(modules)}
        self.first_function = list(accumulate((len(m.functions) for m in modules), initial=0))
        self.first_class = list(accumulate((len(m.classes) for m in modules), initial=0))
        self._module_of_class = [number for number, m in enumerate(modules) for _ in m.classes]
        self._names = _with_packages(self.number_of)
        self._attributes: dict[tuple[str, str], Symbol | None] = {}
        self._lines: dict[int, tuple[int, ...]] = {}
        self._bases: dict[int, list[int]] = {}

    def knows(self, ref: Ref) -> bool:
        """Return whether the first name of a reference is in the environment."""
        return ref.anchor != ABSOLUTE or re.split("[.:]", ref.path)[0] in self._names

    def resolve(self, module: int, ref: Ref) -> Symbol | None:
        """Resolve a reference in a module; None if it is unknown."""
        start, _, path = ref.path.rpartition(":")
        parts = path.split(".") if path else []
        if ref.anchor == ABSOLUTE:
            found = self._module(start)
        elif ref.anchor < ABSOLUTE:
            of_class = self._definition(module, -2 - ref.anchor)
            found = self._inherited(of_class.number, parts.pop(0), skip=1)
        else:
            found = self._definition(module, ref.anchor)
        for part in parts:
            found = self.attribute(found, part) if found else None
        return found

    def attribute(self, owner: Symbol, name: str) -> Symbol | None:
        """Resolve an attribute of a target."""
        if owner.kind == MODULE:
            return self._of_module(owner.name, name)
        return self._inherited(owner.number, name) if owner.kind == CLASS else None

    def bases(self, number: int) -> list[int]:
        """Return the direct bases of a class that are in the environment, without the class itself."""
        if number not in self._bases:
            self._bases[number] = []  # ends the recursion for a class that seems to inherit from itself
            module = self._module_of_class[number]
            refs = self.modules[module].bases[number - self.first_class[module]]
            found = (self.resolve(module, ref) for ref in refs)
            numbers = (symbol.number for symbol in found if symbol and symbol.kind == CLASS)
            self._bases[number] = [base for base in dict.fromkeys(numbers) if base != number]
        return self._bases[number]

    def _module(self, name: str) -> Symbol | None:
        return Symbol(MODULE, self.number_of.get(name, -1), name) if name in self._names else None

    def _definition(self, module: int, definition: int) -> Symbol:
        number = self.modules[module].definitions[definition]
        if number >= 0:
            return Symbol(FUNCTION, self.first_function[module] + number)
        return Symbol(CLASS, self.first_class[module] - 1 - number)

    def _of_module(self, module: str, name: str) -> Symbol | None:
        key = (module, name)
        if key not in self._attributes:
            self._attributes[key] = self._module(f"{module}.{name}")  # for imports that lead back here
            number = self.number_of.get(module)
            found = self._bound(number, name) if number is not None else None
            self._attributes[key] = found or self._attributes[key]
        return self._attributes[key]

    def _bound(self, number: int, name: str) -> Symbol | None:
        """Return what a module binds a name to, by itself or by a star import."""
        module = self.modules[number]
        if name in module.bindings:
            return self.resolve(number, module.bindings[name])
        for star in () if name.startswith("_") else reversed(module.stars):
            source = self.number_of.get(star)
            found = self._of_module(star, name) if source not in (None, number) else None
            if found:
                return found
        return None

    def _inherited(self, number: int, name: str, skip: int = 0) -> Symbol | None:
        """Return an attribute of a class or of the nearest base that has it."""
        for owner in self._line(number)[skip:]:
            module = self._module_of_class[owner]
            members = self.modules[module].members[owner - self.first_class[module]]
            if name in members:
                return self.resolve(module, members[name])
        return None

    def _line(self, number: int) -> tuple[int, ...]:
        """Return a class and its bases in the order in which attributes are searched.

        Depth first, each class where it comes last: that is Python's order wherever bases are listed in
        a consistent order, without its errors for those that are not.
        """
        if number not in self._lines:
            self._lines[number] = (number,)  # ends a circle of bases, in code that cannot run
            below = [base for direct in self.bases(number) for base in self._line(direct)]
            last_first = dict.fromkeys(reversed(below))
            last_first.pop(number, None)
            self._lines[number] = (number, *reversed(last_first))
        return self._lines[number]


def _with_packages(modules: dict[str, int]) -> set[str]:
    """Return the names of modules and of their packages, some of which have no file."""
    names = set(modules)
    for name in modules:
        parent = name.rpartition(".")[0]
        while parent and parent not in names:
            names.add(parent)
            parent = parent.rpartition(".")[0]
    return names
