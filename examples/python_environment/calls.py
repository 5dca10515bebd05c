"""The call edges of the graph, and counts of the calls that were not resolved."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from examples.python_environment.resolve import FUNCTION, MODULE, Resolver
from examples.python_environment.scopes import Ref
from examples.python_environment.tables import Array, Edges, Ints, unique_edges
from partition_ops.system.progress import Advance

NOT_FOUND, OUTSIDE = np.iinfo(np.int64).min, np.iinfo(np.int64).min + 1
OUTCOMES = ("resolved", "built in", "outside the environment", "not resolvable by name")


@dataclass(frozen=True)
class Calls:
    """The resolved calls of every function.

    Attributes:
        calls: ``function:calls:function``, with the number of call sites.
        instantiates: ``function:instantiates:class``, the same.
        is_recursive: bool (functions,), whether a function calls itself.
        sites: int32 (functions, 4), call sites by the four `OUTCOMES`.
    """

    calls: Edges
    instantiates: Edges
    is_recursive: Array
    sites: Array


def resolve_calls(resolver: Resolver, advance: Advance) -> Calls:
    """Resolve the calls of functions by name; advances by one a module."""
    caller, target, count = _rows(resolver, advance)
    is_recursive = np.zeros(resolver.first_function[-1], bool)
    is_recursive[caller[caller == target]] = True
    of_function, of_class = target >= 0, (target < 0) & (target > OUTSIDE)
    return Calls(
        calls=unique_edges(
            caller[of_function], target[of_function], count[of_function], same_type=True, feature="num_sites"
        ),
        instantiates=unique_edges(
            caller[of_class], -1 - target[of_class], count[of_class], same_type=False, feature="num_sites"
        ),
        is_recursive=is_recursive,
        sites=_sites(resolver, caller, target, count),
    )


def _rows(resolver: Resolver, advance: Advance) -> tuple[Ints, Ints, Ints]:
    """Return caller, target (a class as ``-1 - number``) and number of call sites of all modules."""
    blocks: list[Ints] = [np.zeros((0, 3), np.int64)]
    for number, module in enumerate(resolver.modules):
        targets = np.array([_target(resolver, number, ref) for ref in module.refs], np.int64)
        function, ref, count = module.calls.T
        blocks.append(np.stack([function + resolver.first_function[number], targets[ref], count], axis=1))
        advance(1)
    caller, target, count = np.concatenate(blocks).T
    return caller, target, count


def _target(resolver: Resolver, module: int, ref: Ref) -> int:
    symbol = resolver.resolve(module, ref)
    if symbol is None or symbol.kind == MODULE:
        return NOT_FOUND if resolver.knows(ref) else OUTSIDE
    return symbol.number if symbol.kind == FUNCTION else -1 - symbol.number


def _sites(resolver: Resolver, caller: Ints, target: Ints, count: Ints) -> Array:
    resolved, outside, not_found = (
        np.bincount(caller[chosen], count[chosen], resolver.first_function[-1])
        for chosen in (target > OUTSIDE, target == OUTSIDE, target == NOT_FOUND)
    )
    empty = np.zeros((0, 2), np.int32)
    built_in, unknown = np.concatenate([empty, *(module.lost_calls for module in resolver.modules)]).T
    return np.stack([resolved, built_in, outside, not_found + unknown], axis=1).astype(np.int32)
