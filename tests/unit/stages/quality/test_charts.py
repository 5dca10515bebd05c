"""Charts as SVG: well-formed, bars in proportion from zero, names escaped."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from xml.etree import ElementTree

import pytest

from partition_ops.stages.quality.charts import (
    MOST,
    bar_chart,
    column_chart,
    line_chart,
    picture,
    places_by_time,
    share_chart,
    sparkline,
)

SVG = "{http://www.w3.org/2000/svg}"
NAME = '<b> & "作者"'
ENDS = [0.0, 1.0]


def drawn(chart: str) -> ElementTree.Element:
    return ElementTree.fromstring(picture(chart))


def boxes(chart: str) -> dict[str, tuple[float, float, float]]:
    """Return x, width and height of each rectangle by what it shows under the pointer."""
    return {
        rect.findtext(f"{SVG}title", ""): tuple(float(rect.attrib[key]) for key in ("x", "width", "height"))
        for rect in drawn(chart).iter(f"{SVG}rect")
    }


def test_bars_begin_at_zero_and_are_in_proportion() -> None:
    found = boxes(bar_chart({"a": 1.0, "b": 4.0, "c": 0.0}, "{:.1f} s".format, "seconds", "Seconds"))
    assert found["b: 4.0 s"][1] == pytest.approx(4 * found["a: 1.0 s"][1], abs=0.2)
    assert found["c: 0.0 s"][1] == 0
    assert len({x for x, _, _ in found.values()}) == 1


def test_screen_readers_get_every_bar() -> None:
    chart = drawn(bar_chart({"a": 1.0, "b": 4.0}, "{:.1f} s".format, "seconds", "Seconds by stage"))
    assert chart.attrib["aria-label"] == "Seconds by stage: a 1.0 s; b 4.0 s"


def test_columns_are_in_proportion() -> None:
    found = boxes(column_chart({"inner": [10, 20], "halo": [5, 0]}, "{:,.0f}".format, "partition", "Nodes"))
    assert found["partition 1, inner: 20"][2] == pytest.approx(
        2 * found["partition 0, inner: 10"][2], abs=0.2
    )
    assert found["partition 0, halo: 5"][2] == pytest.approx(found["partition 0, inner: 10"][2] / 2, abs=0.2)
    assert found["partition 1, halo: 0"][2] == 0


def test_many_columns_share_places_and_extremes_stay() -> None:
    values = [1.0] * 3000
    values[1234] = 2.0
    columns = boxes(column_chart({"inner": values}, "{:.0f}".format, "partition", "Nodes"))
    squares = boxes(share_chart({"a": values}, "partition", "Shares", spread=0.25))
    assert "partition 1234, inner: 2" in columns and "a, partition 1234: 2.000" in squares
    assert len(columns) <= MOST + 1 and len(squares) <= MOST + 5


def test_colours_of_shares_end_at_the_spread() -> None:
    chart = drawn(share_chart({"a": [0.5, 0.875, 1.0, 1.25]}, "partition", "Shares", spread=0.25))
    found = {rect.findtext(f"{SVG}title"): rect.attrib for rect in chart.iter(f"{SVG}rect")}
    kinds = [
        (
            found[f"a, partition {part}: {share}"]["class"],
            found[f"a, partition {part}: {share}"]["fill-opacity"],
        )
        for part, share in enumerate(("0.500", "0.875", "1.000", "1.250"))
    ]
    assert kinds == [("below", "1.00"), ("below", "0.50"), ("above", "0.00"), ("above", "1.00")]


@pytest.mark.parametrize("high", [0.0, 0.003, 0.9, 1.0, 7.0, 9.9, 12345.0, 3e9])
def test_the_axis_is_round_and_reaches_the_highest_bar(high: float) -> None:
    chart = drawn(bar_chart({"a": high}, str, "s", "Seconds"))
    ticks = [
        float(text.text.replace(",", ""))
        for text in chart.iter(f"{SVG}text")
        if text.get("class") == "middle" and text.text != "s"
    ]
    assert ticks[0] == 0 and ticks[-1] >= high and 2 <= len(ticks) <= 6
    assert all(b - a == pytest.approx(ticks[1]) for a, b in pairwise(ticks))


def test_names_are_escaped() -> None:
    charts = (
        bar_chart({NAME: 1.0}, str, NAME, NAME),
        column_chart({NAME: [1.0]}, str, NAME, NAME),
        share_chart({NAME: [1.0]}, NAME, NAME, spread=0.25),
        line_chart(NAME, [1.0, 2.0], [NAME, NAME], str, places=ENDS),
        sparkline([1.0, 2.0], NAME),
    )
    for chart in charts:
        assert "<b>" not in chart
        assert NAME in "".join(drawn(f"{chart} ").itertext()) or chart == charts[-1]


def test_charts_of_nothing_are_drawn() -> None:
    assert drawn(bar_chart({}, str, "s", "Seconds")) is not None
    assert drawn(column_chart({"inner": [0], "halo": [0]}, str, "partition", "Nodes")) is not None
    assert line_chart("cut", [None, None], ["a", "b"], str, places=ENDS) == ""


def test_a_limit_is_inside_the_chart_and_says_its_value() -> None:
    more = {"places": ENDS, "limit": 0.9, "ends": ("1 May", "2 May"), "marked": [False, True]}
    chart = line_chart("cut", [0.1, 0.2], ["a", "b"], str, **more)  # type: ignore[arg-type]
    (limit,) = [line for line in drawn(chart).iter() if line.get("class") == "limit"]
    circles = [one for one in drawn(chart).iter() if one.tag.endswith("circle")]
    assert "".join(limit.itertext()) == "at most 0.9"
    assert 0 < float(limit.attrib["y1"]) < min(float(one.attrib["cy"]) for one in circles)
    assert [one.attrib["r"] for one in circles] == ["3", "5"]
    assert {"1 May", "2 May"} <= {text.text for text in drawn(chart).iter() if text.tag.endswith("text")}


def day(number: int) -> datetime:
    return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=number)


def test_runs_stand_at_their_times() -> None:
    chart = line_chart("cut", [1.0, None, 2.0], ["a", "b", "c"], str, places=[0.0, 0.2, 1.0])
    xs = [float(x) for x in re.findall(r'<circle cx="([^"]*)"', chart)]
    (begin, end) = (float(x) for x in re.findall(r'<line x1="([^"]*)" y1="[^"]*" x2="([^"]*)"', chart)[1])
    assert xs == [begin, end]
    assert places_by_time([day(0), day(1), day(10)]) == pytest.approx([0, 0.1, 1])
    assert places_by_time([day(0), day(1), day(10), None]) == pytest.approx([0, 0.1 * 2 / 3, 2 / 3, 1])


@pytest.mark.parametrize(
    "times", [[None, day(1), day(9), None], [day(3), day(3), day(3), None], [None, None, None, None]]
)
def test_runs_without_times_stand_at_equal_distances(times: list[datetime | None]) -> None:
    assert places_by_time(times) == pytest.approx([0, 1 / 3, 2 / 3, 1])
    assert places_by_time(times[:1]) == [0]


def test_a_line_needs_two_values() -> None:
    assert sparkline([None, 1.0], "cut") == ""
    assert "polyline" in sparkline([1.0, None, 2.0], "cut")


def test_the_axis_of_a_line_has_zero() -> None:
    assert line_chart("cut", [0.0, 0.0], ["a", "b"], str, places=ENDS).count("<text") == 1
    for values in ([0.5, 0.5], [0.5, 0.7], [0.7, 0.5]):
        chart = line_chart("cut", values, ["a", "b"], str, places=ENDS)
        assert re.findall(r"<text[^>]*>([^<]*)</text>", chart) == [str(max(values)), "0.0"]
        heights = [float(y) for y in re.findall(r'<circle cx="[^"]*" cy="([^"]*)"', chart)]
        base = float(re.findall(r'<line x1="66" y1="([^"]*)" x2="412"', chart)[0])
        shares = [(base - y) / (base - 8) for y in heights]
        assert shares == pytest.approx([value / max(values) for value in values], abs=0.001)
