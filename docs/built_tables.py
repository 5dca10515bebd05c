"""Parts of pages that ``make docs`` makes from the code; in docs/ there is only their marker.

They are long and change with every message, so they are not kept in the repository.
"""

from __future__ import annotations

import argparse
import ast
import importlib
import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from html import escape
from pathlib import Path

from partition_ops import errors
from partition_ops.cli.dispatch import VerbParser, build_parser
from partition_ops.cli.verbs import VERBS
from partition_ops.options.declare import options_of

ROOT = Path(__file__).parents[1]
# classes that carry the arguments of an error to where it is raised: name of the error, place of the problem
CARRIERS = {"_Finding": ("InvalidInputError", 1), "RejectedError": ("InvalidInputError", 0)}
MOST = 60  # texts that an expression can have before its parts count as filled in
Function = ast.FunctionDef | ast.AsyncFunctionDef


class Messages:
    """The messages of the errors in the code, found by reading it.

    Attributes:
        classes: The classes of errors by name.
        found: The messages by class, each with its remedy.
        unknown: The places that make an error whose message this class does not find.
    """

    def __init__(self) -> None:
        self._modules: dict[Path, ast.Module] = {}
        self._names: dict[ast.AST, dict[str, list[ast.expr]]] = {}  # what a function or module assigns
        self._parameters: dict[ast.AST, list[str]] = {}
        self._module: dict[ast.AST, ast.AST] = {}
        self._defined: Counter[str] = Counter()  # how often a function of this name is defined
        self._calls: dict[str, list[tuple[ast.Call, list[ast.AST]]]] = {}  # with the scopes around each
        for folder in ("partition_ops", "plugins"):
            for path in (ROOT / folder).rglob("*.py"):
                self._modules[path] = ast.parse(path.read_text())
                self._read(self._modules[path], [])
        self.classes = self._error_classes()
        options = [tree for path, tree in self._modules.items() if path.parent.name == "options"]
        self.found: dict[str, set[tuple[str, str]]] = {name: set() for name in self.classes}
        self.unknown: list[str] = []
        for name in [*self.classes, *CARRIERS]:
            kind, place = CARRIERS.get(name, (name, 0))
            for call, scopes in self._calls.get(name, []):
                words = {each.arg: each.value for each in call.keywords}
                problem = words.get("problem", call.args[place] if len(call.args) > place else None)
                texts = [text for text in self._texts(problem, scopes) if _has_words(text)]
                remedy = next(
                    (text for text in self._texts(words.get("remedy"), scopes) if _has_words(text)), ""
                )
                self.found[kind] |= {(text, remedy) for text in texts}
                if not texts:
                    self.unknown.append(ast.unparse(call))
        self.found["UsageError"] |= {(text, "") for text in _rules_of_options()}
        for call, scopes in self._calls["ValueError"]:  # of values of options, which parse_value reports
            if scopes[0] in options:
                self.found["UsageError"] |= {(text, "") for text in self._texts(call.args[0], scopes)}

    def _read(self, node: ast.AST, scopes: list[ast.AST]) -> None:
        """Note assignments, parameters and calls below a node."""
        if isinstance(node, ast.Module | Function):
            scopes = [*scopes, node]
            self._names[node] = {}
            self._module[node] = scopes[0]
            if isinstance(node, Function):
                self._defined[node.name] += 1
                arguments = node.args
                self._parameters[node] = [
                    each.arg for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
                ]
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                self._assign(target, node.value, scopes[-1])
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
            name = node.func.id if isinstance(node.func, ast.Name) else node.func.attr
            self._calls.setdefault(name, []).append((node, scopes))
        for child in ast.iter_child_nodes(node):
            self._read(child, scopes)

    def _assign(self, target: ast.expr, value: ast.expr, scope: ast.AST) -> None:
        if isinstance(target, ast.Name):
            self._names[scope].setdefault(target.id, []).append(value)
        elif isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            for name, each in zip(target.elts, value.elts, strict=True):
                self._assign(name, each, scope)

    def _error_classes(self) -> dict[str, type[errors.PartitionOpsError]]:
        """Return the errors of errors.py, and those that other modules derive from them."""
        found = {
            name: value
            for name, value in vars(errors).items()
            if isinstance(value, type) and issubclass(value, errors.PartitionOpsError)
        }
        for path, tree in self._modules.items():
            for node in tree.body:
                if isinstance(node, ast.ClassDef) and {ast.unparse(base) for base in node.bases} & set(found):
                    module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
                    found[node.name] = getattr(importlib.import_module(module), node.name)
        return found

    def _texts(self, node: ast.expr | None, scopes: list[ast.AST], depth: int = 0) -> list[str]:
        """Return the texts that an expression can be, with … for what is filled in."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return [node.value] if node.value else []
        if isinstance(node, ast.IfExp):
            branches = (self._texts(each, scopes, depth) or ["…"] for each in (node.body, node.orelse))
            return [text for branch in branches for text in branch]
        if isinstance(node, ast.JoinedStr):
            return self._joined(node.values, scopes, depth)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            return self._joined([node.left, node.right], scopes, depth)
        if isinstance(node, ast.Name) and depth < 4:
            for scope in reversed(scopes):
                if node.id in self._names[scope]:
                    values = self._names[scope][node.id]
                    return [
                        text for value in values for text in self._texts(value, scopes, depth + 1) or ["…"]
                    ]
                if isinstance(scope, Function) and node.id in self._parameters[scope]:
                    return self._passed(scope, node.id, depth)
        return []

    def _passed(self, function: Function, name: str, depth: int) -> list[str]:
        """Return the texts that calls of a function pass for a parameter."""
        names = [each for each in self._parameters[function] if each not in ("self", "cls")]
        found = []
        for call, scopes in self._calls.get(function.name, []):
            if name in names and (self._defined[function.name] == 1 or scopes[0] is self._module[function]):
                place = names.index(name)
                words = {each.arg: each.value for each in call.keywords}
                value = words.get(name, call.args[place] if len(call.args) > place else None)
                found += self._texts(value, scopes, depth + 1) or ["…"]
        return found

    def _joined(self, parts: Sequence[ast.expr], scopes: list[ast.AST], depth: int) -> list[str]:
        choices = []
        for each in parts:
            value = each.value if isinstance(each, ast.FormattedValue) else each
            constant = isinstance(value, ast.Constant)
            texts = {str(value.value)} if constant else {*self._texts(value, scopes, depth)}
            choices.append(sorted(texts) if 0 < len(texts) <= MOST else ["…"])
        if math.prod(map(len, choices)) > MOST:
            choices = [texts if len(texts) == 1 else ["…"] for texts in choices]
        return ["".join(chosen) for chosen in itertools.product(*choices)]


def _rules_of_options() -> Iterator[str]:
    """Yield the messages for options that are given without the option that they need."""
    for verb in VERBS:
        for one in (inner.verb for inner in verb.verb.verbs or (verb,)):
            options = options_of(*one.options)
            strings = {each.name: each.option_string for each in options}
            for each in options:
                name, _, value = each.only_with.partition("=")
                if name in strings:
                    values = value.replace("|", " or ")
                    yield f"{each.option_string} needs {strings[name]} {values}".rstrip()


def _has_words(text: str) -> bool:
    return any(character.isalpha() for character in text)


@cache
def read_messages() -> Messages:
    """Return the messages of the code, which is read once."""
    return Messages()


def messages() -> dict[str, list[tuple[str, str]]]:
    """Return the messages of the code by the class of their error, each with its remedy."""
    found = read_messages().found
    return {name: sorted(rows, key=lambda row: row[0].casefold()) for name, rows in found.items() if rows}


def messages_by_class() -> str:
    """Return a section for each class of errors, with a heading for each message.

    The search finds headings first, so whoever pastes a message gets that.
    """
    parts = []
    classes = read_messages().classes
    for name, rows in messages().items():
        kind = classes[name]
        retry = "A retry can help." if kind.transient else "A retry gives the same error."
        first = (kind.__doc__ or "").splitlines()[0]
        parts.append(f"### {name}\n\n{first} Exit code {kind.exit_code}. {retry}\n")
        parts += [f"#### {_literal(problem)}\n\n{_literal(remedy)}\n" for problem, remedy in rows]
    return "\n".join(parts)


def verbs() -> str:
    """Return a section for each verb: its help, as the command prints it."""
    parts = []
    for name, parser in _subparsers(build_parser()).items():
        parts.append(f"## {name}\n\n````text\n{_help(parser)}\n````\n")
        for inner, each in _subparsers(parser).items():
            parts.append(f"### {name} {inner}\n\n````text\n{_help(each)}\n````\n")
    return "\n".join(parts)


def _subparsers(parser: VerbParser) -> dict[str, VerbParser]:
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


def _literal(text: str) -> str:
    """Return a text that stands for itself in Markdown."""
    for character in r"\`*_[]|#":
        text = text.replace(character, f"\\{character}")
    return " ".join(escape(text, quote=False).split())


TABLES: dict[str, Callable[[], str]] = {"messages": messages_by_class, "verbs": verbs}
