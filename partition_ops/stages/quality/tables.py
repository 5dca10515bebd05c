"""Tables of the quality page."""

from __future__ import annotations

from html import escape

MIB = 1 << 20
TABULATED = 256  # partitions: a page with more rows is a file to load, which report.json is for


def left_out(num_parts: int) -> str:
    """Return a sentence about the partitions that a table does not have; nothing if it has all."""
    more = num_parts - TABULATED
    if more <= 0:
        return ""
    return f'<p class="soft">The {more:,} partitions after these are in <code>report.json</code>.</p>'


def table(head: list[str], rows: list[list[str]]) -> str:
    """Return an HTML table; all cells are text."""
    lines = ["<tr>" + "".join(f'<th scope="col">{escape(cell)}</th>' for cell in head) + "</tr>"]
    lines += ["<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows]
    return "<table>" + "".join(lines) + "</table>"
