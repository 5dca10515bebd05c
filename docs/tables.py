"""Write the tables in docs/ that follow from the code, between their markers: ``make reference``.

A table stands between ``<!-- table: NAME -->`` and ``<!-- end of table -->``; `TABLES` makes its lines.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from partition_ops.stages.validate.checks import docs_table

DOCS = Path(__file__).parent
TABLES: dict[str, Callable[[], list[str]]] = {"checks": docs_table}
MARKED = re.compile(r"(<!-- table: (\S+) -->\n).*?(<!-- end of table -->)", re.DOTALL)


def with_tables(text: str) -> str:
    """Return the text of a page with its tables as the code has them now."""
    return MARKED.sub(lambda found: f"{found[1]}\n" + "\n".join(TABLES[found[2]]()) + f"\n\n{found[3]}", text)


def main() -> None:
    """Write every page that has changed."""
    for page in sorted(DOCS.rglob("*.md")):
        text = page.read_text()
        if with_tables(text) != text:
            page.write_text(with_tables(text))
            print(f"{page} is written")


if __name__ == "__main__":
    main()
