"""HTML tables and SVG pictures for the quality page; they load nothing from the network."""

from __future__ import annotations

import io
import warnings
from collections.abc import Mapping
from html import escape

import matplotlib
import matplotlib.text
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

COLOUR = "#1f6f8b"


def new_chart(height: float) -> tuple[Figure, Axes]:
    """Return an empty chart of the width of the page; ``height`` is in inches."""
    figure = Figure(figsize=(9, height), layout="constrained")
    return figure, figure.subplots()


def bar_chart(values: Mapping[str, float], fmt: str, unit: str, label: str) -> str:
    """Return a picture (SVG) with a bar for each value, from top to bottom.

    Args:
        values: By name of the bar.
        fmt: Format of the number at a bar, with ``%``.
        unit: What the axis shows.
        label: Text for screen readers.
    """
    figure, axes = new_chart(0.7 + 0.3 * len(values))
    bars = axes.barh(list(values), list(values.values()), color=COLOUR)
    axes.bar_label(bars, fmt=fmt, padding=3)
    axes.invert_yaxis()
    axes.margins(x=0.12)
    axes.set_xlabel(unit)
    return picture(figure, label)


def inline_picture(figure: Figure, label: str) -> str:
    """Return a picture inside the page, with a text for screen readers."""
    text = picture(figure, label)
    return f'<div role="img" aria-label="{escape(label)}">{text[text.index("<svg") :]}</div>'


def picture(figure: Figure, label: str) -> str:
    """Return a picture as a file of its own (SVG)."""
    # the viewer of the picture has the fonts: text stays text
    warnings.filterwarnings("ignore", r"Glyph .* missing from font", UserWarning)
    stream = io.StringIO()
    for text in figure.findobj(matplotlib.text.Text):
        text.set_parse_math(False)  # names of types may contain "$"
    # fixed salt and no date: the same report gives the same bytes
    with matplotlib.rc_context({"svg.hashsalt": label, "svg.fonttype": "none", "text.parse_math": False}):
        FigureCanvasSVG(figure).print_figure(stream, format="svg", metadata={"Date": None, "Creator": None})
    return stream.getvalue()


def table(head: list[str], rows: list[list[str]]) -> str:
    """Return an HTML table; all cells are text."""
    lines = ["<tr>" + "".join(f"<th>{escape(cell)}</th>" for cell in head) + "</tr>"]
    lines += ["<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows]
    return "<table>" + "".join(lines) + "</table>"
