"""`one_statement`: the text of a query without what may follow its only statement."""

from __future__ import annotations

import re

from partition_ops.errors import InvalidInputError

TOKENS = re.compile(
    r"(?P<comment>--[^\n]*|/\*.*?(?:\*/|\Z))|(?P<space>\s+)|(?P<end>;)"
    r"|'(?:[^']|'')*'?|\"(?:[^\"]|\"\")*\"?|`[^`]*`?|\$(?P<tag>\w*)\$.*?(?:\$(?P=tag)\$|\Z)|.",
    re.DOTALL,
)


def one_statement(sql: str, where: str) -> str:
    """Return a query without semicolons, comments and spaces at its end.

    Raises:
        InvalidInputError: There is no statement, or there are several.
    """
    end, ended = 0, False
    for token in TOKENS.finditer(sql):
        if token["comment"] or token["space"]:
            continue
        if token["end"]:
            ended = end > 0
            continue
        if ended:
            raise InvalidInputError(
                f"{where}: 'sql' has several statements",
                found=f"after the first one, {sql[token.start() :][:40]!r}",
                expected="one SELECT",
            )
        end = token.end()
    if not end:
        raise InvalidInputError(f"{where}: 'sql' has no statement", found=repr(sql[:40]), expected="a SELECT")
    return sql[:end]
