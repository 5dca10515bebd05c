"""All checks, a file for each: every module of this package defines one as ``CHECK``.

Nothing heavy is imported here, because the form and ``--help`` list the checks.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Iterable, Mapping
from importlib import import_module

from partition_ops.errors import UsageError
from partition_ops.stages.validate.check import SEVERITIES, Check


def _find_checks() -> dict[str, Check]:
    """Import every module of this package; those that can only fail come first in their severity."""
    found = [import_module(f"{__name__}.{module.name}").CHECK for module in pkgutil.iter_modules(__path__)]
    found.sort(key=lambda check: (SEVERITIES.index(check.severity), len(check.actions) > 1, check.name))
    return {check.name: check for check in found}


CHECKS: dict[str, Check] = _find_checks()
"""Every check by its name."""


def choices() -> dict[str, tuple[str, ...]]:
    """Return the actions of every check that has more than one, the default first."""
    return {name: check.actions for name, check in CHECKS.items() if len(check.actions) > 1}


def edge_checks() -> list[str]:
    """Return the names of the checks whose findings are edges that can be dropped."""
    return [name for name, check in CHECKS.items() if "drop" in check.actions]


def parse_actions(texts: Iterable[str]) -> dict[str, str]:
    """Return actions by check, from texts such as ``self_loop_edges=drop``.

    An action without a check means every check of `edge_checks`.
    """
    chosen: dict[str, str] = {}
    for text in texts:
        name, separator, action = text.rpartition("=")
        chosen |= dict.fromkeys([name] if separator else edge_checks(), action)
    return chosen


def checked_actions(chosen: str | Mapping[str, str]) -> dict[str, str]:
    """Return the action of every check that has more than one.

    Args:
        chosen: Actions by check, or one for every check of `edge_checks`; the others keep their default.

    Raises:
        UsageError: There is no such check, or it has no such action.
    """
    known = choices()
    chosen = parse_actions([chosen]) if isinstance(chosen, str) else chosen
    for name, action in chosen.items():
        if name not in known:
            raise UsageError(
                f"There is no check {name!r} with a choice of actions", expected="one of " + ", ".join(known)
            )
        if action not in known[name]:
            raise UsageError(f"{name} cannot be {action!r}", expected="one of " + ", ".join(known[name]))
    return {name: chosen.get(name, actions[0]) for name, actions in known.items()}
