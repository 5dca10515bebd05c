"""Charts as SVG for HTML pages and picture files: bars, columns, squares and lines; no script, no library.

The same values give the same bytes. A mark shows its value when the pointer is on it. Names are escaped.
Colours are CSS variables: `COLOURS` defines them for light and dark pages, and `STYLE` applies them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from html import escape
from unicodedata import east_asian_width

from partition_ops.errors import clipped

COLOURS = """
:root { color-scheme: light dark; --ink: #1d2733; --soft: #5b6b7c; --line: #d9e0e7; --accent: #1f6f8b;
  --second: #e0a458; --below: #5b9bd0; --above: #e0933f; }
@media (prefers-color-scheme: dark) { :root { --ink: #e3e8ee; --soft: #a3b1bf; --line: #47525e;
  --accent: #6fc3df; --second: #b5762a; --below: #2c6796; --above: #97530f; } }
"""
STYLE = """
svg text { fill: currentColor; font: 12px system-ui, sans-serif; } svg text.end { text-anchor: end; }
svg text.middle { text-anchor: middle; } svg line { stroke: var(--line); } svg rect { fill: var(--accent); }
svg .second { fill: var(--second); } svg .below { fill: var(--below); } svg .above { fill: var(--above); }
svg polyline { fill: none; stroke: var(--accent); stroke-width: 1.8; } svg circle { fill: var(--accent); }
svg.spark { vertical-align: middle; }
"""
WIDTH, ROW, CHARACTER = 720, 22, 6.8  # px; of a chart, of a bar with its space, of a character of 12 px
LONGEST = 32  # characters of a name, before it is cut off
MOST = 256  # columns; with more values, a column shows one of several
LINE_WIDTH, LINE_HEIGHT, LEFT, BOTTOM = 420, 130, 66, 18
SPARK_WIDTH, SPARK_HEIGHT = 60, 22
Show = Callable[[float], str]
Values = Sequence[float | None]


def bar_chart(values: Mapping[str, float], show: Show, unit: str, label: str) -> str:
    """Return horizontal bars from top to bottom, on an axis that begins at zero.

    Args:
        values: By name of the bar; at least zero.
        show: Writes a value as text.
        unit: What the axis shows.
        label: What the chart shows. Screen readers read it, and all values.
    """
    shown = {name: show(value) for name, value in values.items()}
    left = 10 + max((_width(_short(name)) for name in values), default=0)
    right = 10 + max(map(_width, shown.values()), default=0)
    ticks = _ticks(max(values.values(), default=0))
    scale = (WIDTH - left - right) / ticks[-1]
    bottom = ROW * len(values) + 4
    parts = []
    for tick in ticks:
        x = left + tick * scale
        parts.append(f'<line x1="{x:.1f}" y1="0" x2="{x:.1f}" y2="{bottom}"/>')
        parts.append(_text(x, bottom + 16, f"{tick:,.10g}", "middle"))
    for row, (name, value) in enumerate(values.items()):
        end = left + value * scale
        parts.append(_text(left - 8, ROW * row + 16, _short(name), "end"))
        parts.append(_rect("", left, ROW * row + 4, value * scale, ROW - 6, f"{name}: {shown[name]}"))
        parts.append(_text(end + 5, ROW * row + 16, shown[name]))
    parts.append(_text((left + WIDTH - right) / 2, bottom + 34, unit, "middle"))
    said = "; ".join(f"{name} {text}" for name, text in shown.items())
    return _svg(f"{label}: {said}", WIDTH, bottom + 40, parts)


def column_chart(series: Mapping[str, Sequence[float]], show: Show, axis: str, label: str) -> str:
    """Return columns, one series on top of the other, on an axis that begins at zero.

    With more than `MOST` values, each column is the highest of several neighbours.

    Args:
        series: Values from left to right, at least zero, by name of the series; at most two series.
        show: Writes a value as text.
        axis: What the columns are, such as ``partition``; they are numbered from 0.
        label: What the chart shows, for screen readers.
    """
    totals = [sum(column) for column in zip(*series.values(), strict=True)]
    ticks = _ticks(max(totals, default=0))
    left, top, height = 10 + max(_width(show(tick)) for tick in ticks), 26, 200
    scale, bottom = height / ticks[-1], top + height
    parts = []
    for tick in ticks:
        y = bottom - tick * scale
        parts.append(f'<line x1="{left:.1f}" y1="{y:.1f}" x2="{WIDTH}" y2="{y:.1f}"/>')
        parts.append(_text(left - 6, y + 4, show(tick), "end"))
    groups = _groups(len(totals))
    step = (WIDTH - left) / max(len(groups), 1)
    for place, group in enumerate(groups):
        number, y = max(group, key=totals.__getitem__), float(bottom)
        for kind, (name, values) in zip(("", "second"), series.items(), strict=False):
            tall = values[number] * scale
            y -= tall
            about = f"{axis} {number}, {name}: {show(values[number])}"
            parts.append(_rect(kind, left + (place + 0.1) * step, y, 0.8 * step, tall, about))
    parts += _numbers(groups, left, step, bottom + 16)
    x = WIDTH - 24.0 * len(series) - sum(map(_width, series))
    for kind, name in zip(("", "second"), series, strict=False):
        parts += [_rect(kind, x, 2, 12, 12, name), _text(x + 17, 12, name)]
        x += 24 + _width(name)
    parts.append(_text((left + WIDTH) / 2, bottom + 34, axis, "middle"))
    return _svg(label, WIDTH, bottom + 40, parts)


def share_chart(rows: Mapping[str, Sequence[float]], axis: str, label: str, *, spread: float) -> str:
    """Return a square for each share, coloured by its distance from 1: a heat map.

    With more than `MOST` values, each column is the one that is farthest from 1 among several neighbours.

    Args:
        rows: Shares from left to right, by name of the row.
        axis: What the columns are, such as ``partition``; they are numbered from 0.
        label: What the chart shows, for screen readers.
        spread: Distance from 1 at which colours end.
    """
    left = 10 + max((_width(_short(name)) for name in rows), default=0)
    groups = _groups(max(map(len, rows.values()), default=0))
    step, parts = (WIDTH - left) / max(len(groups), 1), []
    for row, (name, shares) in enumerate(rows.items()):
        parts.append(_text(left - 8, ROW * row + 16, _short(name), "end"))
        for place, group in enumerate(groups):
            number = max(group, key=lambda number: abs(shares[number] - 1))
            about = f"{name}, {axis} {number}: {shares[number]:.3f}"
            parts.append(_square(shares[number], spread, left + place * step, ROW * row, step, about))
            if step >= 5 * CHARACTER:
                x = left + (place + 0.5) * step
                parts.append(_text(x, ROW * row + 16, f"{shares[number]:.2f}", "middle"))
    bottom = ROW * len(rows)
    parts += _numbers(groups, left, step, bottom + 16)
    parts.append(_text((left + WIDTH) / 2, bottom + 34, axis, "middle"))
    ends = {-1.0: f"≤ {1 - spread:.2f}", 0.0: "1.00", 1.0: f"≥ {1 + spread:.2f}"}
    for place, part in enumerate((-1.0, -0.5, 0.0, 0.5, 1.0)):  # what the colours mean
        x, share = left + 60.0 * place, 1 + part * spread
        parts.append(_square(share, spread, x, bottom + 44, 60, f"{share:.3f}"))
        parts.append(_text(x + 30, bottom + 60, ends.get(part, ""), "middle"))
    return _svg(label, WIDTH, bottom + 70, parts)


def line_chart(
    title: str,
    values: Values,
    names: Sequence[str],
    show: Show,
    *,
    places: Sequence[float],
    limit: float | None = None,
    ends: tuple[str, str] = ("", ""),
    marked: Sequence[bool] = (),
) -> str:
    """Return a figure with a line, such as a value from run to run, on an axis that has zero.

    It is empty without a value.

    Args:
        title: What is drawn.
        values: One value for each run, oldest first; None where a run has none.
        names: Names of the runs, shown when the pointer is on a point.
        show: Writes a value as text.
        places: Place of each run from left to right, from 0 to 1, as `places_by_time` returns them.
        limit: A value that is drawn as a dashed line.
        ends: What stands below the first and the last run, such as dates.
        marked: Whether the point of a run is larger.
    """
    known = [(run, value) for run, value in enumerate(values) if value is not None]
    if not known:
        return ""
    numbers = [value for _, value in known]
    drawn = numbers if limit is None else [*numbers, limit]
    low, high = min(0.0, *drawn), max(0.0, *drawn)
    width, height = LINE_WIDTH - LEFT - 8, LINE_HEIGHT - BOTTOM - 12
    scale = height / ((high - low) or 1.0)
    points = [(LEFT + places[run] * width, 8 + height - (value - low) * scale) for run, value in known]
    parts = [
        f'<line x1="{LEFT}" y1="8" x2="{LEFT}" y2="{8 + height}"/>',
        f'<line x1="{LEFT}" y1="{8 + height}" x2="{LINE_WIDTH - 8}" y2="{8 + height}"/>',
        '<polyline points="{}"/>'.format(" ".join(f"{x:.1f},{y:.1f}" for x, y in points)),
    ]
    if limit is not None:
        y = 8 + height - (limit - low) * scale
        line = f'<line class="limit" x1="{LEFT}" y1="{y:.1f}" x2="{LINE_WIDTH - 8}" y2="{y:.1f}">'
        parts.append(f"{line}<title>{escape(f'at most {show(limit)}')}</title></line>")
    for (x, y), (run, value) in zip(points, known, strict=True):
        about = escape(f"{names[run]}: {show(value)}")
        radius = 5 if any(marked[run : run + 1]) else 3
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius}"><title>{about}</title></circle>')
    for place, (end, anchor) in enumerate(zip(ends, ("", "end"), strict=True)):
        if end:
            parts.append(_text((LEFT, LINE_WIDTH - 8)[place], LINE_HEIGHT - 4, end, anchor))
    for value, y in {high: 8, low: 8 + height}.items():  # one label if all values are zero
        parts.append(_text(LEFT - 6, y + 4, show(value), "end"))
    summary = f"{title} from {show(numbers[0])} to {show(numbers[-1])} over {len(known)} runs"
    chart = _svg(summary, LINE_WIDTH, LINE_HEIGHT, parts)
    return f"<figure><figcaption>{escape(title)}</figcaption>{chart}</figure>"


def places_by_time(times: Sequence[datetime | None]) -> list[float]:
    """Return the places of runs on an axis of time, from 0 for the first to 1 for the last.

    If the time of the last run is not known yet, the distance to the run before it is the mean of the others.
    If that of another run is not known either, all distances are equal.

    Args:
        times: Of the runs, oldest first.
    """
    gaps = max(len(times) - 1, 1)
    even = [run / gaps for run in range(len(times))]
    known = [time.timestamp() for time in times if time is not None]
    if len(known) < 2 or None in times[:-1] or known[0] == known[-1]:
        return even
    end = even[len(known) - 1]
    return [*((time - known[0]) / (known[-1] - known[0]) * end for time in known), *even[len(known) :]]


def sparkline(values: Values, label: str) -> str:
    """Return a line without axes, for a cell of a table; nothing for fewer than two values."""
    known = [value for value in values if value is not None]
    if len(known) < 2:
        return ""
    high, spread = max(known), (max(known) - min(known)) or 1.0
    step, height = (SPARK_WIDTH - 4) / (len(known) - 1), SPARK_HEIGHT - 4
    places = [(number * step, (high - value) / spread * height) for number, value in enumerate(known)]
    points = " ".join(f"{x + 2:.1f},{y + 2:.1f}" for x, y in places)
    x, y = places[-1]
    box = f'viewBox="0 0 {SPARK_WIDTH} {SPARK_HEIGHT}" width="{SPARK_WIDTH}" height="{SPARK_HEIGHT}"'
    return (
        f'<svg class="spark" role="img" aria-label="{escape(label)}" {box}>'
        f'<polyline points="{points}"/><circle cx="{x + 2:.1f}" cy="{y + 2:.1f}" r="2"/></svg>'
    )


def picture(chart: str) -> str:
    """Return a chart as a file of its own, with its colours."""
    style = f"<style>{COLOURS}:root {{ color: var(--ink); }}{STYLE}</style>"
    return chart.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1).replace(">", f">{style}", 1)


def _svg(label: str, width: int, height: float, parts: Sequence[str]) -> str:
    head = f'<svg class="chart" role="img" aria-label="{escape(label)}" viewBox="0 0 {width} {height}">'
    return "\n".join([head, *parts, "</svg>\n"])


def _text(x: float, y: float, text: str, anchor: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}"{_kind(anchor)}>{escape(text)}</text>'


def _rect(kind: str, x: float, y: float, width: float, height: float, about: str) -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"'
    return f"<rect{_kind(kind)} {place}><title>{escape(about)}</title></rect>"


def _kind(kind: str) -> str:
    return f' class="{kind}"' if kind else ""


def _square(share: float, spread: float, x: float, y: float, width: float, about: str) -> str:
    kind, strength = "below" if share < 1 else "above", min(abs(share - 1) / spread, 1.0)
    drawn = _rect(kind, x, y, width, ROW, about)
    return drawn.replace("<rect ", f'<rect fill-opacity="{strength:.2f}" ', 1)


def _numbers(groups: Sequence[range], left: float, step: float, y: float) -> list[str]:
    """Return the numbers below columns: as many as fit."""
    every = max(1, math.ceil(40 / step))
    return [
        _text(left + (place + 0.5) * step, y, str(groups[place][0]), "middle")
        for place in range(0, len(groups), every)
    ]


def _groups(count: int) -> list[range]:
    """Return the values that share a column: one, if there are at most `MOST`."""
    size = max(1, math.ceil(count / MOST))
    return [range(first, min(first + size, count)) for first in range(0, count, size)]


def _ticks(high: float) -> list[float]:
    """Return round numbers from 0 to `high` or above, two to six of them."""
    if high <= 0:
        return [0.0, 1.0]
    power = 10.0 ** math.floor(math.log10(high))
    step = next(part * power for part in (0.2, 0.5, 1.0, 2.0) if part * power * 5 >= high)
    return [round(number * step, 12) for number in range(math.ceil(high / step - 1e-9) + 1)]


def _short(name: str) -> str:
    return clipped(name, LONGEST)


def _width(text: str) -> float:
    """Return about how wide a text is, in px; Chinese, Japanese and Korean characters are twice as wide."""
    return CHARACTER * sum(2 if east_asian_width(one) in "WF" else 1 for one in text)
