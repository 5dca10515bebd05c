"""Write docs/reference.md, the reference of the public API, from the docstrings: ``make reference``."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import partition_ops
import partition_ops.ingest

PAGE = Path(__file__).with_name("reference.md")
INTRODUCTION = """\
# Python API

`make reference` writes this page from the docstrings of the public names of `partition_ops`.
"""
IN_MEMORY = "Graphs in memory: `partition_ops.ingest`"
LIST_SECTIONS = ("Args", "Attributes", "Raises")
SECTION = re.compile(r"^(Args|Attributes|Raises|Returns|Yields|Example|Shapes):\n", re.MULTILINE)
WIDTH = 100


def reference() -> str:
    """Return the text of the page."""
    exported = [(name, getattr(partition_ops, name)) for name in partition_ops.__all__ if name[0] != "_"]
    errors = [pair for pair in exported if inspect.isclass(pair[1]) and issubclass(pair[1], Exception)]
    functions = [pair for pair in exported if inspect.isfunction(pair[1])]
    classes = [pair for pair in exported if pair not in (*errors, *functions)]
    parts = [INTRODUCTION]
    in_memory = [(name, getattr(partition_ops.ingest, name)) for name in partition_ops.ingest.__all__]
    groups = (("Functions", functions), (IN_MEMORY, in_memory), ("Classes", classes), ("Errors", errors))
    for title, group in groups:
        parts.append(f"## {title}\n")
        for name, value in group:
            parts += [f"### {name}\n", *_description(name, value)]
            if inspect.isclass(value) and title != "Errors":
                parts += _members(value)
    return "\n".join(parts)


def _description(name: str, value: Any) -> Iterator[str]:
    is_error = inspect.isclass(value) and issubclass(value, Exception)
    if is_error:
        yield f"Subclass of `{value.__mro__[1].__name__}`; exit code {getattr(value, 'exit_code', 1)}.\n"
    elif callable(value) and not inspect.isabstract(value):
        yield f"```python\n{_signature(name, value)}\n```\n"
    yield _markdown(inspect.getdoc(value) or "")


def _members(cls: type) -> Iterator[str]:
    """Yield the public methods and properties of a class that have a docstring, in their order.

    Those of our base classes that are not public themselves come first.
    """
    bases = [base for base in reversed(cls.__mro__) if base.__name__ not in partition_ops.__all__]
    ours = [base for base in bases if base.__module__.startswith("partition_ops.")]
    for name, member in [item for kind in (*ours, cls) for item in vars(kind).items()]:
        function = inspect.unwrap(getattr(member, "__func__", getattr(member, "func", member)))
        if name.startswith("_") or not (member.__doc__ and member.__doc__.strip()):
            continue
        if isinstance(member, property) or hasattr(member, "func"):
            yield f"#### {cls.__name__}.{name}\n"
        elif inspect.isfunction(function):
            yield f"#### {cls.__name__}.{name}\n\n```python\n{_signature(name, function)}\n```\n"
        else:
            continue
        yield _markdown(inspect.cleandoc(member.__doc__))


def _signature(name: str, value: Any) -> str:
    signature = inspect.signature(value)
    parameters, star = [], False
    for parameter in signature.parameters.values():
        if parameter.name == "self":
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and not star:
            parameters.append("*")
        star = star or parameter.kind in (parameter.KEYWORD_ONLY, parameter.VAR_POSITIONAL)
        parameters.append(_parameter(parameter))
    returned = signature.return_annotation
    arrow = "" if returned in (signature.empty, None, "None") else f" -> {_annotation(returned)}"
    line = f"{name}({', '.join(parameters)}){arrow}"
    if len(line) <= WIDTH:
        return line
    return f"{name}(\n" + "".join(f"    {each},\n" for each in parameters) + f"){arrow}"


def _parameter(parameter: inspect.Parameter) -> str:
    stars = {parameter.VAR_KEYWORD: "**", parameter.VAR_POSITIONAL: "*"}.get(parameter.kind, "")
    text = f"{stars}{parameter.name}"
    if parameter.annotation is not parameter.empty:
        text += f": {_annotation(parameter.annotation)}"
    if parameter.default is not parameter.empty:
        default = parameter.default
        # the factory of a dataclass's field has no readable form
        text += f" = {default!r}" if not repr(default).startswith("<") else " = …"
    return text


def _annotation(annotation: Any) -> str:
    return annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))


def _markdown(docstring: str) -> str:
    """Return a docstring in Google style as Markdown."""
    text, *sections = SECTION.split(docstring)
    parts = [_inline(text)]
    for title, body in zip(sections[::2], sections[1::2], strict=True):
        inside, after = _split_section(body)
        if title == "Example":
            parts.append(f"```python\n{inside}\n```")
        else:
            is_list = title in LIST_SECTIONS
            parts.append(f"**{title}**\n\n{_items(inside) if is_list else _inline(inside)}")
        parts.append(_inline(after))
    return "\n\n".join(part.strip() for part in parts if part.strip()) + "\n"


def _split_section(body: str) -> tuple[str, str]:
    """Return the indented part of a section without its indentation, and what follows the section."""
    match = re.match(r"(?:(?: .*)?\n|(?: .*)$)*", body)
    end = match.end() if match else 0
    return inspect.cleandoc(body[:end]), body[end:]


def _items(body: str) -> str:
    found = re.split(r"^(\S+): ", body, flags=re.MULTILINE)[1:]
    pairs = zip(found[::2], found[1::2], strict=True)
    return "\n".join(f"- `{name}`: {_inline(' '.join(text.split()))}" for name, text in pairs)


def _inline(text: str) -> str:
    return text.replace("``", "`")


if __name__ == "__main__":
    PAGE.write_text(reference())
