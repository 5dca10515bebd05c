"""HTML tables and SVG pictures for the quality page; they load nothing from the network."""

from __future__ import annotations

import io
import warnings
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def inline_picture(figure: Figure, label: str) -> str:
    """Return a picture inside the page, with a text for screen readers."""
    text = picture(figure, label)
    return f'<div role="img" aria-label="{escape(label)}">{text[text.index("<svg") :]}</div>'


def picture(figure: Figure, label: str) -> str:
    """Return a picture as a file of its own (SVG)."""
    import matplotlib
    import matplotlib.text
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    # the viewer of the picture has the fonts: text stays text
    warnings.filterwarnings("ignore", r"Glyph .* missing from font", UserWarning)
    stream = io.StringIO()
    for text in figure.findobj(matplotlib.text.Text):
        text.set_parse_math(False)  # names of types may contain "$"
    # fixed salt and no date: the same report gives the same bytes
    with matplotlib.rc_context(
        {"svg.hashsalt": label, "svg.fonttype": "none", "text.parse_math": False},
    ):
        FigureCanvasSVG(figure).print_figure(stream, format="svg", metadata={"Date": None, "Creator": None})
    return stream.getvalue()


def table(head: list[str], rows: list[list[str]]) -> str:
    """Return an HTML table; all cells are text."""
    lines = ["<tr>" + "".join(f"<th>{escape(cell)}</th>" for cell in head) + "</tr>"]
    lines += ["<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows]
    return "<table>" + "".join(lines) + "</table>"
