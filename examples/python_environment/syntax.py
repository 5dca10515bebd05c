"""Kinds of nodes in Python's syntax tree, and functions to read some of them."""

from __future__ import annotations

import ast
from collections.abc import Iterator

Function = ast.FunctionDef | ast.AsyncFunctionDef
# The kinds with a counter of their own; all others share the last one.
# fmt: off
NODE_KINDS = [
    "Name", "Constant", "Attribute", "Call", "Assign", "arg", "keyword", "BinOp", "Tuple", "Expr", "Compare",
    "Subscript", "List", "If", "Return", "UnaryOp", "BoolOp", "Dict", "JoinedStr", "For", "With", "Raise",
    "Try", "Assert", "AugAssign", "AnnAssign", "ListComp", "Lambda", "Yield", "Await", "While",
]
NUM_KINDS = len(NODE_KINDS) + 1
NOT_CHILDREN = {  # fields that hold text or flags, and operators, which are not counted
    "ctx", "op", "ops", "id", "attr", "arg", "name", "names", "kind", "type_comment", "module", "level",
    "asname", "is_async", "simple", "conversion", "type_ignores", "rest", "kwd_attrs",
}
# fmt: on
OUTSIDE_BODY = {  # the body of a definition is a scope of its own
    "FunctionDef": ("returns", "args", "decorator_list"),
    "AsyncFunctionDef": ("returns", "args", "decorator_list"),
    "ClassDef": ("keywords", "bases", "decorator_list"),
    "Constant": (),
    "MatchSingleton": (),
}
CLASS_RECEIVERS = frozenset({"__new__", "__init_subclass__", "__class_getitem__"})


def _tables() -> tuple[dict[type, tuple[str, ...]], dict[type, int]]:
    kinds = [kind for kind in vars(ast).values() if isinstance(kind, type) and issubclass(kind, ast.AST)]
    fields = {
        kind: OUTSIDE_BODY.get(
            kind.__name__, tuple(name for name in reversed(kind._fields) if name not in NOT_CHILDREN)
        )
        for kind in kinds
    }
    # a list of children has None where an item is left out, as in {**mapping}
    fields[type(None)] = ()  # type: ignore[index]
    slots = {name: slot for slot, name in enumerate(NODE_KINDS)}
    return fields, {kind: slots.get(kind.__name__, NUM_KINDS - 1) for kind in fields}


CHILD_FIELDS, SLOT_OF = _tables()  # by kind of node: fields with children, last first; slot of its count


def dotted_name(node: ast.AST) -> str:
    """Return ``a.b.c`` for attributes of a name, ``super().m`` for those of super, else nothing."""
    attributes: list[str] = []
    while isinstance(node, ast.Attribute):
        attributes.append(node.attr)
        node = node.value
    if isinstance(node, ast.Name):
        attributes.append(node.id)
    elif attributes and _is_super(node):
        attributes.append("super()")
    else:
        return ""
    return ".".join(reversed(attributes))


def _is_super(node: ast.AST) -> bool:
    """Return whether it is ``super()`` without arguments: ``super(Other, self)`` begins at another class."""
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "super"
        and not node.args
    )


def parameters(arguments: ast.arguments) -> Iterator[ast.arg]:
    """Return all parameters in the order of the source."""
    for group in parameter_groups(arguments):
        yield from group


def parameter_groups(arguments: ast.arguments) -> tuple[list[ast.arg], ...]:
    """Positional-only, ordinary, ``*args``, keyword-only, ``**kwargs``."""
    return (
        arguments.posonlyargs,
        arguments.args,
        [arguments.vararg] if arguments.vararg else [],
        arguments.kwonlyargs,
        [arguments.kwarg] if arguments.kwarg else [],
    )


def receiver(node: Function) -> tuple[str, bool]:
    """Return the name of a method's first parameter, and whether it is the class."""
    decorators = {dotted_name(decorator) for decorator in node.decorator_list}
    positional = [*node.args.posonlyargs, *node.args.args]
    if not positional or "staticmethod" in decorators:
        return "", False
    return positional[0].arg, "classmethod" in decorators or node.name in CLASS_RECEIVERS


def has_docstring(body: list[ast.stmt]) -> bool:
    """Return whether a body begins with a string."""
    return (
        bool(body)
        and isinstance(body[0], ast.Expr)
        and isinstance(body[0].value, ast.Constant)
        and isinstance(body[0].value.value, str)
    )
