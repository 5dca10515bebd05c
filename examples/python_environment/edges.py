"""The edges of the graph that are not calls, from the environment and its resolved names."""

from __future__ import annotations

import numpy as np

from examples.python_environment.discover import Environment
from examples.python_environment.resolve import CLASS, FUNCTION, MODULE, Resolver, Symbol
from examples.python_environment.scopes import Ref
from examples.python_environment.tables import Edges, edges_of_rows


def requires(environment: Environment) -> Edges:
    """``distribution:requires:distribution``, where both are installed."""
    number_of = {found.name: number for number, found in enumerate(environment.distributions)}
    rows = (
        (number_of[found.name], number_of[name], int(only_extra))
        for found in environment.distributions
        for name, only_extra in found.requires.items()
        if name in number_of
    )
    return edges_of_rows(rows, same_type=True, feature="only_extra", dtype=np.bool_)


def contains(environment: Environment, resolver: Resolver) -> Edges:
    """``distribution:contains:module``; several distributions may bring the same module."""
    rows = (
        (distribution, resolver.number_of[module], 1)
        for distribution, found in enumerate(environment.distributions)
        for module in found.modules
        if module in resolver.number_of
    )
    return edges_of_rows(rows, same_type=False)


def imports(resolver: Resolver) -> Edges:
    """``module:imports:module``, with the number of names that are imported."""
    rows = (
        (number, target, count)
        for number, module in enumerate(resolver.modules)
        for (source, name), count in module.imports.items()
        if (target := _imported(resolver, source, name)) is not None
    )
    return edges_of_rows(rows, same_type=True, feature="num_names")


def inherits(resolver: Resolver) -> Edges:
    """``class:inherits:class``, with the position among the bases that are in the environment."""
    rows = (
        (number, base, position)
        for number in range(resolver.first_class[-1])
        for position, base in enumerate(resolver.bases(number))
    )
    return edges_of_rows(rows, same_type=True, feature="position", dtype=np.int8)


def definitions(resolver: Resolver) -> dict[str, Edges]:
    """Modules define classes and functions, classes have methods, functions enclose functions.

    Every class is the destination of one edge, and every function of one edge of the other three types.
    """
    rows: dict[str, list[tuple[int, int, int]]] = {MODULE: [], CLASS: [], FUNCTION: []}
    for number, module in enumerate(resolver.modules):
        for function, parent in enumerate(module.function_parents, resolver.first_function[number]):
            around = resolver.resolve(number, Ref(parent, "")) if parent >= 0 else None
            kind, source = (around.kind, around.number) if around else (MODULE, number)
            rows[kind].append((source, function, 1))
    classes = [
        (number, c, 1) for number, m in enumerate(resolver.modules) for c in _classes(resolver, number)
    ]
    return {
        "module:defines_class:class": edges_of_rows(classes, same_type=False),
        "module:defines_function:function": edges_of_rows(rows[MODULE], same_type=False),
        "class:has_method:function": edges_of_rows(rows[CLASS], same_type=False),
        "function:encloses:function": edges_of_rows(rows[FUNCTION], same_type=True),
    }


def _classes(resolver: Resolver, module: int) -> range:
    return range(resolver.first_class[module], resolver.first_class[module + 1])


def _imported(resolver: Resolver, source: str, name: str) -> int | None:
    """Return the module that an import takes a name from, or the module with that name."""
    if name:
        symbol = resolver.attribute(Symbol(MODULE, -1, source), name)
        if symbol and symbol.kind == MODULE and symbol.number >= 0:
            return symbol.number
    return resolver.number_of.get(source)
