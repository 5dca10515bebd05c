"""Walk over the syntax tree of a module, and collect its definitions, imports, bindings and calls.

The walk is iterative, because generated code nests expressions deeper than functions can recurse, and
visits each node once, because a usual environment has tens of millions.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable

from examples.python_environment.scopes import ABSOLUTE, UNKNOWN, Definition, Ref, Scope
from examples.python_environment.syntax import (
    CHILD_FIELDS,
    SLOT_OF,
    Function,
    dotted_name,
    parameters,
    receiver,
)


class Walk:
    """Walks over one module.

    Attributes:
        module: Its dotted name.
        definitions: Classes and functions by number, those of an outer scope before those inside it.
        scopes: Every scope, the module's first.
        imports: How many names are imported from where: (module, name or nothing).
        stars: Modules that everything is imported from.
    """

    def __init__(self, module: str, is_package: bool) -> None:
        self.module = module
        self.definitions: list[Definition] = []
        self.scopes = [Scope(None, -1)]
        self.imports: Counter[tuple[str, str]] = Counter()
        self.stars: list[str] = []
        self._package = module.split(".") if is_package else module.split(".")[:-1]
        self._names: Counter[str] = Counter()

    def run(self, tree: ast.Module) -> Walk:
        """Visit every node once."""
        self._visit(self.scopes[0], tree.body)
        for definition in self.definitions:  # grows during the loop
            self._visit(definition.body, definition.node.body)
        return self

    def _visit(self, scope: Scope, body: list[ast.stmt]) -> None:
        """Visit in the order of the source, because the last of several definitions counts."""
        stack: list[ast.AST] = body[::-1]  # type: ignore[assignment]
        syntax, bindings = scope.syntax, scope.bindings
        while stack:
            node = stack.pop()
            kind = node.__class__
            syntax[SLOT_OF[kind]] += 1
            if kind is ast.Name:
                if node.ctx.__class__ is ast.Store:  # type: ignore[attr-defined]
                    bindings.setdefault(node.id, UNKNOWN)  # type: ignore[attr-defined]
                continue
            if kind in HANDLERS:
                HANDLERS[kind](self, scope, node)
            for name in CHILD_FIELDS[kind]:
                child = getattr(node, name)
                if child.__class__ is list:
                    stack.extend(child[::-1])
                elif child is not None:
                    stack.append(child)

    def _define(self, scope: Scope, node: ast.ClassDef | Function) -> None:
        body = Scope(scope, len(self.definitions), is_class=isinstance(node, ast.ClassDef))
        scope.bindings[node.name] = Ref(body.owner, "")
        self.definitions.append(Definition(node, self._unique_name(scope, node.name), scope, body))
        self.scopes.append(body)
        if not isinstance(node, ast.ClassDef):
            _bind_parameters(body, node)

    def _unique_name(self, scope: Scope, name: str) -> str:
        """Return the qualified name, numbered if a module defines it several times."""
        if scope.owner >= 0:
            inside = "." if scope.is_class else ".<locals>."
            name = self.definitions[scope.owner].name + inside + name
        self._names[name] += 1
        return name if self._names[name] == 1 else f"{name}#{self._names[name]}"

    def _import(self, scope: Scope, node: ast.Import) -> None:
        for alias in node.names:
            self.imports[alias.name, ""] += 1
            top = alias.name.split(".")[0]
            bound = alias.name if alias.asname else top
            scope.bindings[alias.asname or top] = Ref(ABSOLUTE, f"{bound}:")

    def _import_from(self, scope: Scope, node: ast.ImportFrom) -> None:
        source = self._absolute(node)
        for alias in node.names if source else ():
            if alias.name == "*":
                self.imports[source, ""] += 1
                self.stars.append(source)
            else:
                self.imports[source, alias.name] += 1
                scope.bindings[alias.asname or alias.name] = Ref(ABSOLUTE, f"{source}:{alias.name}")

    def _absolute(self, node: ast.ImportFrom) -> str:
        """Return the module that is imported from; nothing if the dots lead out of the top package."""
        if node.level == 0:
            return node.module or ""
        kept = len(self._package) - node.level + 1
        return ".".join(self._package[:kept] + ([node.module] if node.module else [])) if kept > 0 else ""

    def _call(self, scope: Scope, node: ast.Call) -> None:
        called = dotted_name(node.func)
        if called:
            scope.calls[called] += 1
        else:
            scope.other_calls += 1

    def _lambda(self, scope: Scope, node: ast.Lambda) -> None:
        """Bind its parameters, which hide names of the enclosing scope."""
        for parameter in parameters(node.args):
            scope.bindings.setdefault(parameter.arg, UNKNOWN)

    def _bind_text(self, scope: Scope, node: ast.ExceptHandler | ast.MatchAs | ast.MatchStar) -> None:
        if node.name:
            scope.bindings.setdefault(node.name, UNKNOWN)


def _bind_parameters(body: Scope, node: Function) -> None:
    if body.parent is not None and body.parent.is_class:
        body.receiver, body.receiver_is_class = receiver(node)
    for parameter in parameters(node.args):
        if parameter.arg != body.receiver:
            body.bindings[parameter.arg] = UNKNOWN


HANDLERS: dict[type, Callable[..., None]] = {
    ast.FunctionDef: Walk._define,
    ast.AsyncFunctionDef: Walk._define,
    ast.ClassDef: Walk._define,
    ast.Import: Walk._import,
    ast.ImportFrom: Walk._import_from,
    ast.Call: Walk._call,
    ast.Lambda: Walk._lambda,
    ast.ExceptHandler: Walk._bind_text,
    ast.MatchAs: Walk._bind_text,
    ast.MatchStar: Walk._bind_text,
}
