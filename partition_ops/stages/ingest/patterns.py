"""Patterns of paths: ``*``, ``?`` and ``[a-f]`` stay in a folder, ``**`` goes through folders."""

from __future__ import annotations

import re
from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc

from partition_ops.errors import InvalidInputError

SPECIAL = re.compile(r"[*?\[]")
TOKEN = re.compile(r"(\*\*/|\*\*|\*|\?|\[!?\]?[^\]/]*\])")
AS_REGEX = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}


def is_pattern(path: str) -> bool:
    """Return whether a path is a pattern."""
    return SPECIAL.search(path) is not None


def escaped(path: str) -> str:
    """Return the pattern that only one path matches."""
    return SPECIAL.sub(lambda one: f"[{one[0]}]", path)


def folder_of(pattern: str) -> str:
    """Return the folder that has all matches: empty, or with a ``/`` at the end."""
    plain = SPECIAL.split(pattern, maxsplit=1)[0]
    return plain[: plain.rfind("/") + 1]


def matches(pattern: str, keys: Iterable[str], where: str) -> list[str]:
    """Return the keys that a pattern matches, in their order.

    Args:
        pattern: The pattern.
        keys: The keys.
        where: What the pattern is for, for messages.

    Raises:
        InvalidInputError: The pattern is not valid, or a key that it matches is not text.

    Time: linear in the lengths of the keys, whatever the pattern is.
    """
    names = [*keys]
    texts = [name.encode(errors="surrogatepass").decode(errors="replace") for name in names]
    try:
        found = pc.match_substring_regex(pa.array(texts, pa.string()), _regular_expression(pattern, where))
    except pa.ArrowInvalid as error:  # a pattern of many thousand characters
        raise _invalid(pattern, where, str(error)) from error
    chosen = [name for name, one in zip(names, found.to_pylist(), strict=True) if one]
    odd = next((name for name in chosen if re.search("[\ud800-\udfff]", name)), None)
    if odd is not None:
        raise InvalidInputError(
            f"{where}: the name of a file is not text in UTF-8", found=ascii(odd), remedy="Rename the file."
        )
    return chosen


def _regular_expression(pattern: str, where: str) -> str:
    """Return a pattern in the syntax of RE2, which matches in linear time."""
    parts = TOKEN.split(re.sub(r"(\*\*/)+", "**/", pattern))
    regex = [
        AS_REGEX.get(part) or (_letters(part, pattern, where) if i % 2 else re.escape(part))
        for i, part in enumerate(parts)
    ]
    return rf"(?s)^(?:{''.join(regex)})\z"


def _letters(part: str, pattern: str, where: str) -> str:
    """Return ``[…]`` of a pattern in the syntax of RE2; it never matches a ``/``."""
    inner = part[1:-1]
    negated = inner.startswith("!")
    inner = inner.removeprefix("!")
    ranges = re.findall(r"(.)-(.)|(.)", inner, re.DOTALL)
    reverse = next((f"{first}-{last}" for first, last, _ in ranges if first > last), None)
    if reverse is not None or not inner:
        raise _invalid(pattern, where, f"the range {reverse}" if reverse else "no letters in []")
    letters = "".join(
        f"{re.escape(first)}-{re.escape(last)}" if first else re.escape(one) for first, last, one in ranges
    )
    return f"[^/{letters}]" if negated else f"[{letters}]"


def _invalid(pattern: str, where: str, found: str) -> InvalidInputError:
    return InvalidInputError(
        f"{where}: {pattern[:200]!r} is not a valid pattern",
        found=found,
        expected="a path with *, **, ? or ranges such as [0-9]",
        remedy="In a pattern, [[] stands for a bracket, [*] for a star and [?] for a question mark.",
    )
