"""Parts of pages that ``make docs`` makes from the code; in docs/ there is only their marker.

They are long and change with every message, so they are not kept in the repository.
"""

from __future__ import annotations

import argparse
import ast
from collections.abc import Callable, Iterator
from html import escape
from pathlib import Path

from partition_ops import errors
from partition_ops.cli.dispatch import build_parser

ROOT = Path(__file__).parents[1]
CLASSES: dict[str, type[errors.PartitionOpsError]] = {
    name: value
    for name, value in vars(errors).items()
    if isinstance(value, type) and issubclass(value, errors.PartitionOpsError)
}


def messages() -> dict[str, list[tuple[str, str]]]:
    """Return the messages of the code by the class of their error, each with its remedy."""
    found: dict[str, set[tuple[str, str]]] = {name: set() for name in CLASSES}
    for folder in ("partition_ops", "plugins"):
        for path in (ROOT / folder).rglob("*.py"):
            tree = ast.parse(path.read_text())
            constants = dict(_constants(tree))
            for node in ast.walk(tree):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in CLASSES:
                    words = {each.arg: each.value for each in node.keywords}
                    for problem in _texts(
                        words.get("problem", node.args[0] if node.args else None), constants
                    ):
                        remedy = next(_texts(words.get("remedy"), constants), "")
                        found[node.func.id].add((problem, remedy))
    return {name: sorted(rows, key=lambda row: row[0].casefold()) for name, rows in found.items() if rows}


def _constants(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            yield node.targets[0].id, node.value


def _texts(node: ast.expr | None, constants: dict[str, ast.expr]) -> Iterator[str]:
    """Yield the texts that an expression can be, with … for what is filled in; nothing if it has no words."""
    if isinstance(node, ast.IfExp):
        yield from _texts(node.body, constants)
        yield from _texts(node.orelse, constants)
    elif isinstance(node, ast.Name) and node.id in constants:
        yield from _texts(constants[node.id], constants)
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.JoinedStr):
        parts = [str(each.value) if isinstance(each, ast.Constant) else "…" for each in node.values]
        if any(character.isalpha() for character in "".join(parts)):
            yield "".join(parts)


def messages_by_class() -> str:
    """Return a section for each class of errors, with a table of its messages."""
    parts = []
    for name, rows in messages().items():
        kind = CLASSES[name]
        retry = "A retry can help." if kind.transient else "A retry gives the same error."
        first = (kind.__doc__ or "").splitlines()[0]
        parts.append(f"### {name}\n\n{first} Exit code {kind.exit_code}. {retry}\n")
        parts += ["| Message | Remedy |", "|---|---|"]
        parts += [f"| {_cell(problem)} | {_cell(remedy)} |" for problem, remedy in rows]
        parts.append("")
    return "\n".join(parts)


def verbs() -> str:
    """Return a section for each verb: its help, as the command prints it."""
    parts = []
    for name, parser in _subparsers(build_parser()).items():
        parts.append(f"## {name}\n\n````text\n{_help(parser)}\n````\n")
        for inner, each in _subparsers(parser).items():
            parts.append(f"### {name} {inner}\n\n````text\n{_help(each)}\n````\n")
    return "\n".join(parts)


def _subparsers(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    actions = [each for each in parser._actions if isinstance(each, argparse._SubParsersAction)]
    return dict(actions[0].choices) if actions else {}


def _help(parser: argparse.ArgumentParser) -> str:
    width = 88  # fits beside both menus
    parser.formatter_class = _with_width(parser.formatter_class, width)
    return parser.format_help().strip()


def _with_width(formatter: Callable[..., argparse.HelpFormatter], width: int) -> type[argparse.HelpFormatter]:
    class Formatter(formatter):  # type: ignore[misc, valid-type]
        def __init__(self, prog: str) -> None:
            super().__init__(prog, width=width, max_help_position=26)

    return Formatter


def _cell(text: str) -> str:
    """Return a text that stands for itself in a table."""
    for character in r"\`*_[]|":
        text = text.replace(character, f"\\{character}")
    return " ".join(escape(text, quote=False).split())


TABLES: dict[str, Callable[[], str]] = {"messages": messages_by_class, "verbs": verbs}
