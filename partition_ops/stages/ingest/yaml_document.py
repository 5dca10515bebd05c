"""Parse YAML with limits of size, depth and types, so that a small hostile document is rejected at once."""

from __future__ import annotations

import math
import re
from typing import Any

from partition_ops.errors import InvalidInputError

DEEPEST = 32  # mappings and lists inside of each other
MOST_NODES = 2_000_000  # with those that aliases repeat
PLAIN_TAGS = {f"tag:yaml.org,2002:{name}" for name in ("str", "int", "float", "bool", "null", "map", "seq")}
NUMBERS = {f"tag:yaml.org,2002:{name}" for name in ("int", "float")}
BOOL, TIMESTAMP = "tag:yaml.org,2002:bool", "tag:yaml.org,2002:timestamp"


def parse_yaml(data: bytes, where: str, *, numbers: frozenset[str]) -> Any:
    """Return a document of mappings with texts as keys, lists, texts, numbers, booleans and None.

    ``no`` and ``2024-01-01`` are text, as in YAML 1.2. Keys are text as they are written, and so are numbers
    outside of the values of some keys.

    Args:
        data: The document.
        where: What it is, for messages.
        numbers: Keys whose values may be numbers.

    Raises:
        InvalidInputError: It is not YAML, has a key twice, a tag, an alias to what it is in, a number that is
            not finite, or a text that is not Unicode; or it is too deep or too large.

    Time and memory: linear in the size of the document with its aliases, at most `MOST_NODES`.
    """
    import yaml

    try:
        _check_events(yaml, data)
        loader = _loader(yaml)(data)
        try:
            node = loader.get_single_node()
            return None if node is None else _plain(yaml, loader, node, numbers, True)
        finally:
            loader.dispose()
    except (yaml.YAMLError, ValueError, TypeError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        place = f", in line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        problem = getattr(error, "problem", None) or str(error)
        raise InvalidInputError(
            f"{where} is not valid YAML",
            found=f"{problem}{place}",
            expected="a document such as 'partition-ops ingest --example' prints",
        ) from error


def _loader(yaml: Any) -> Any:
    class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
        """Without booleans such as ``no``, and without dates."""

    Loader.yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag not in (BOOL, TIMESTAMP)]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    Loader.add_implicit_resolver(BOOL, re.compile("true|false"), ["t", "f"])
    return Loader


def _check_events(yaml: Any, data: bytes) -> None:
    """Check tags, aliases, depth and size before anything is built."""
    sizes: dict[str, int] = {}
    open_nodes: list[tuple[str | None, int]] = []
    total = 0
    for event in yaml.parse(data, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
        problem = ""
        tag = getattr(event, "tag", None)
        if tag not in (None, "!", *PLAIN_TAGS):
            problem = f"the tag {tag}"
        if isinstance(event, yaml.AliasEvent):
            if event.anchor in {anchor for anchor, _ in open_nodes}:
                problem = "an alias of what it is in"
            total += sizes.get(event.anchor, 1)
        elif isinstance(event, yaml.ScalarEvent):
            total += 1
            if event.anchor:
                sizes[event.anchor] = 1
        elif isinstance(event, yaml.CollectionStartEvent):
            open_nodes.append((event.anchor, total))
            total += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = open_nodes.pop()
            if anchor:
                sizes[anchor] = total - before
        if len(open_nodes) > DEEPEST:
            problem = f"more than {DEEPEST} mappings and lists inside of each other"
        if total > MOST_NODES:
            problem = f"more than {MOST_NODES:,} values, with those that aliases repeat"
        if problem:
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=event.start_mark)


def _plain(yaml: Any, loader: Any, node: Any, numbers: frozenset[str], number: bool) -> Any:
    """Return the value of a node; ``number`` says whether it may be a number."""
    if isinstance(node, yaml.SequenceNode):
        return [_plain(yaml, loader, one, numbers, number) for one in node.value]
    if isinstance(node, yaml.MappingNode):
        found: dict[str, Any] = {}
        for key_node, value in node.value:
            key = key_node.value
            if not isinstance(key, str):
                raise _problem(yaml, "a key that is no text", key_node)
            _check_text(yaml, key, key_node)
            if key in found:
                raise _problem(yaml, f"the key {key!r} is there twice", key_node)
            found[key] = _plain(yaml, loader, value, numbers, key in numbers)
        return found
    if node.tag in NUMBERS and not number:
        return str(node.value)
    value = loader.construct_object(node)
    if isinstance(value, float) and not math.isfinite(value):
        raise _problem(yaml, f"the number {node.value}, which is not finite", node)
    if isinstance(value, str):
        _check_text(yaml, value, node)
    return value


def _check_text(yaml: Any, text: str, node: Any) -> None:
    if any("\ud800" <= letter <= "\udfff" for letter in text):
        raise _problem(yaml, f"the text {text!a}, which is not Unicode", node)
    if "\0" in text:
        raise _problem(yaml, f"the text {text!a} with the character 0", node)


def _problem(yaml: Any, problem: str, node: Any) -> Any:
    return yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark)
