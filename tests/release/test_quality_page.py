"""The quality page in Chromium: dates of its history, in light and dark, on a desk and on a telephone."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from partition_ops.artifacts import layout
from partition_ops.jobs.options import RunConfig
from partition_ops.jobs.whole_job import run_job
from partition_ops.storage import Store, open_store
from tests.e2e.airflow_site import wait_until
from tests.e2e.browser import Browser
from tests.graphs import library
from tests.growth import grown
from tests.release.readable import faint_texts, fits

CHARTS = "[...document.querySelectorAll('svg.chart')]"
DAYS = (1, 3, 11)  # of May 2026: when runs were published


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of the fourth of four runs over a graph that grows, with a probe and a long name."""
    folder = tmp_path_factory.mktemp("quality")
    graph = library(papers=120)
    previous: Store | None = None
    config = RunConfig(num_parts=4, engine="metis", probe=True, graph_name="a_graph_with_a_long_name_" * 3)
    for number, day in enumerate((*DAYS, None)):
        source = open_store(str(graph.write(folder / f"in{number}")))
        out = open_store(str(folder / f"out{number}"))
        run_job(config, source, out, previous=previous)
        if day is not None:
            time = datetime(2026, 5, day, 22, 30, tzinfo=UTC).timestamp()
            os.utime(folder / f"out{number}" / layout.MANIFEST, (time, time))
        graph, previous = grown(graph, seed=number + 1), out
    return folder / "out3" / layout.QUALITY_PAGE


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [390, 1400])
def test_it_can_be_read(browser: Browser, page: Path, width: int, dark: bool) -> None:
    browser.show_as(width=width, height=800, dark=dark)
    browser.open(page.as_uri())
    browser.wait_for_text("From run to run", "Time by stage")
    browser.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true })")
    assert fits(browser)
    assert faint_texts(browser) == []
    shown = f"{CHARTS}.map(one => one.getBoundingClientRect().width / one.viewBox.baseVal.width)"
    assert 12 * min(browser.evaluate(shown)) >= 10, "px of the texts of charts"
    for name in (layout.TIMES, layout.SPEEDS):
        browser.open((page.parents[1] / name).as_uri())
        wait_until(lambda: browser.evaluate("document.querySelectorAll('svg text').length > 3"))
        assert faint_texts(browser) == []


def test_charts_have_dates_in_the_zone_of_the_viewer(browser: Browser, page: Path) -> None:
    browser.show_as(width=1000)
    browser.show_times_in("Asia/Seoul")
    browser.open(page.as_uri())
    text = browser.wait_for_text("From run to run", "2026-05-02 07:30 GMT+9", "2026-05-12 07:30 GMT+9")
    assert " UTC" not in text and "this run" in text
    chart = "[...document.querySelectorAll('figure')].find(one => one.innerText.startsWith('seconds'))"
    xs = browser.evaluate(f"[...{chart}.querySelectorAll('circle')].map(one => one.cx.baseVal.value)")
    assert (xs[2] - xs[0]) / (xs[1] - xs[0]) == pytest.approx(
        (DAYS[2] - DAYS[0]) / (DAYS[1] - DAYS[0]), abs=0.01
    )
    assert len(xs) == len(DAYS), "the seconds of this run are not known yet"
    points = browser.evaluate(f"[...{chart}.querySelectorAll('circle title')].map(one => one.textContent)")
    assert points[0].startswith("run 1, 2026-05-02 07:30 GMT+9: ")


def test_axes_begin_at_zero(browser: Browser, page: Path) -> None:
    browser.show_as(width=1000)
    browser.open(page.as_uri())
    browser.wait_for_text("From run to run")
    ends = "[...one.querySelectorAll('text.end')].at(-1).textContent"
    found = browser.evaluate(f"[...document.querySelectorAll('figure svg')].map(one => {ends})")
    assert len(found) >= 5 and all(float(text.strip("%")) == 0 for text in found)


def test_faint_texts_are_found(browser: Browser, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    chart = '<svg><rect width="99" height="20" fill="#333"/><text y="15" fill="#111">on a bar</text></svg>'
    page.write_text(f'<p style="color: #999">grey</p><p style="opacity: .5">pale</p><p>black</p>{chart}')
    browser.show_as(width=390)
    browser.open(page.as_uri())
    browser.wait_for_text("black")
    assert [text.split(":")[0] for text in faint_texts(browser)] == ["grey", "pale", "on a bar"]
    page.write_text("<pre>" + "wide " * 100)
    browser.open(page.as_uri())
    browser.wait_for_text("wide")
    assert not fits(browser)
