"""Small line charts as SVG, drawn by the server: no script and no library in the browser."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from markupsafe import Markup

WIDTH, HEIGHT, LEFT, BOTTOM = 420, 130, 62, 18
SPARK_WIDTH, SPARK_HEIGHT = 60, 22
Values = Sequence[float | None]


def sparkline(values: Values, label: str) -> Markup:
    """Return a line without axes, for a cell of a table; nothing for fewer than two values."""
    known = [value for value in values if value is not None]
    if len(known) < 2:
        return Markup("")
    high, spread = max(known), (max(known) - min(known)) or 1.0
    step, height = (SPARK_WIDTH - 4) / (len(known) - 1), SPARK_HEIGHT - 4
    places = [(number * step, (high - value) / spread * height) for number, value in enumerate(known)]
    points = " ".join(f"{x + 2:.1f},{y + 2:.1f}" for x, y in places)
    x, y = places[-1]
    return Markup(
        '<svg class="spark" role="img" aria-label="{}" viewBox="0 0 {} {}" width="{}" height="{}">'
        '<polyline points="{}"/><circle cx="{:.1f}" cy="{:.1f}" r="2"/></svg>'
    ).format(label, SPARK_WIDTH, SPARK_HEIGHT, SPARK_WIDTH, SPARK_HEIGHT, points, x + 2, y + 2)


def line_chart(title: str, values: Values, names: Sequence[str], show: Callable[[float], str]) -> Markup:
    """Return a chart of a figure from run to run.

    Args:
        title: What is drawn.
        values: One value for each run, oldest first; None where a run has none.
        names: Names of the runs, shown when the pointer is on a point.
        show: Writes a value as text.
    """
    known = [(place, value) for place, value in enumerate(values) if value is not None]
    if not known:
        return Markup("")
    numbers = [value for _, value in known]
    low, high = min(numbers), max(numbers)
    spread, middle = (high - low) or 1.0, 0.5 if high == low else 0.0  # a constant is in the middle
    inner_width, inner_height = WIDTH - LEFT - 8, HEIGHT - BOTTOM - 12
    last = max(len(values) - 1, 1)
    points = [
        (LEFT + place / last * inner_width, 8 + (middle + (high - value) / spread) * inner_height)
        for place, value in known
    ]
    marks = Markup("").join(
        Markup('<circle cx="{:.1f}" cy="{:.1f}" r="3"><title>{}: {}</title></circle>').format(
            x, y, names[place], show(value)
        )
        for (x, y), (place, value) in zip(points, known, strict=True)
    )
    ticks = Markup("").join(
        Markup('<text x="{}" y="{:.1f}" text-anchor="end">{}</text>').format(LEFT - 6, y + 4, show(value))
        for value, y in {low: 8 + inner_height, high: 8 + middle * inner_height}.items()
    )
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    summary = f"{title} from {show(numbers[0])} to {show(numbers[-1])} over {len(known)} runs"
    return Markup(
        "<figure><figcaption>{}</figcaption>"
        '<svg class="chart" role="img" aria-label="{}" viewBox="0 0 {} {}">'
        '<line x1="{}" y1="8" x2="{}" y2="{}"/><line x1="{}" y1="{}" x2="{}" y2="{}"/>'
        '<polyline points="{}"/>{}{}</svg></figure>'
    ).format(
        title,
        summary,
        WIDTH,
        HEIGHT,
        *(LEFT, LEFT, 8 + inner_height),
        *(LEFT, 8 + inner_height, WIDTH - 8, 8 + inner_height),
        line,
        marks,
        ticks,
    )
