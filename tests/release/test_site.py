"""The site that ``make docs`` has built, opened as files in a browser."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from local_stack.folders import PROJECT
from partition_ops import __version__
from tests.e2e.airflow_site import wait_until
from tests.e2e.browser import PROGRAM, Browser

SITE = PROJECT / "site"
PAGES = sorted(SITE.rglob("*.html"))
# without those that show files of the repository
READ = [page for page in PAGES if page.relative_to(SITE).parts[0] not in ("404.html", "repository")]
pytestmark = pytest.mark.skipif(PROGRAM is None, reason="there is no Chromium")


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    browser = Browser(tmp_path)
    yield browser
    browser.close()


def search(browser: Browser, words: str, *found: str) -> None:
    """Search, and wait for texts among the results."""
    browser.type_into("[data-md-component=search-query]", words)
    browser.wait_for_text(*found)


def test_no_page_loads_anything_from_another_host() -> None:
    assert len(PAGES) > 60, "run 'make docs' first"
    loads = re.compile(r"<(?:script|img|iframe|link)\b[^>]*?\b(?:src|href)=\"?(?:https?:)?//[^\s\">]+")
    assert [(page.name, found[0]) for page in PAGES if (found := loads.search(page.read_text()))] == []


def test_the_footer_has_the_version() -> None:
    assert f"partition-ops {__version__}" in (SITE / "index.html").read_text()


def test_search_works_on_files(browser: Browser) -> None:
    browser.open((SITE / "index.html").as_uri())
    browser.wait_for_text("partition-ops", "Tutorial", "Explanation")
    search(browser, "There are more partitions than nodes", "matching documents", "Errors by message")


def test_search_works_in_korean(browser: Browser) -> None:
    browser.open((SITE / "ko/index.html").as_uri())
    browser.wait_for_text("사용 방법")
    search(browser, "매니페스트", "매니페스트를 마지막에 쓰는 이유")


def test_dark_and_light(browser: Browser) -> None:
    browser.open((SITE / "halo.html").as_uri())
    browser.wait_for_text("What a partition holds")
    colour = "getComputedStyle(document.body).backgroundColor"
    seen = set()
    for scheme in ("light", "dark"):
        feature = {"name": "prefers-color-scheme", "value": scheme}
        browser._send("Emulation.setEmulatedMedia", features=[feature])
        browser.open((SITE / "two-level.html").as_uri())
        browser.wait_for_text("How two-level works")
        seen.add(browser.evaluate(colour))
    assert len(seen) == 2


def test_every_page_fits_a_telephone_and_has_its_pictures(browser: Browser) -> None:
    browser.show_as(width=390, height=844)
    width = "document.documentElement.scrollWidth"
    missing = "[...document.images].filter(e => !e.naturalWidth).map(e => e.getAttribute('src'))"
    found = {}
    for page in READ:
        uri = page.as_uri()
        browser.open(uri)
        loaded = f"location.href === {uri!r} && document.readyState === 'complete'"
        wait_until(lambda loaded=loaded: browser.evaluate(loaded))
        found[page.relative_to(SITE)] = (browser.evaluate(width), browser.evaluate(missing))
    assert len(found) > 60
    assert {page: seen for page, seen in found.items() if seen != (390, [])} == {}


def test_every_page_leads_to_itself_in_the_other_language() -> None:
    """A page without a translation leads to the Korean start page."""
    link = re.compile(r'<a href="([^"]+)" hreflang="(en|ko)" class="md-select__link"')
    for page in READ:
        links = {language: (page.parent / to).resolve() for to, language in link.findall(page.read_text())}
        english = SITE / str(page.relative_to(SITE)).removeprefix("ko/")
        korean = SITE / "ko" / english.relative_to(SITE)
        assert links == {"en": english, "ko": korean if korean.exists() else SITE / "ko/index.html"}, page
