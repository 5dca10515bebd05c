"""Tests of what a release shows: translations, messages, and all pages in a browser.

``make release-check`` runs them, and ``make test`` does not. With the environment variable ``PICTURES``, a
folder, they also write the pictures of the docs there::

    PICTURES=docs/images .venv/bin/python -m pytest tests/release
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from local_stack.airflow import USER
from tests.e2e.airflow_site import VIEWER, Site
from tests.e2e.browser import PROGRAM, Browser
from tests.e2e.conftest import site, statsd, told  # noqa: F401
from tests.e2e.test_ui import log_in
from tests.temporary import on_disk  # noqa: F401

MOST_BYTES = 200_000
HOME = "/graph-partitioning/"
Save = Callable[[Browser, str], None]


@pytest.fixture(scope="package")
def admin(site: Site, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:  # noqa: F811
    """The browser of a user who may do everything."""
    yield from _browser(site, tmp_path_factory.mktemp("admin"), USER)


@pytest.fixture(scope="package")
def viewer(site: Site, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:  # noqa: F811
    """The browser of a user who may read everything and change nothing."""
    yield from _browser(site, tmp_path_factory.mktemp("viewer"), VIEWER)


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Browser]:
    """A browser for files, without a login."""
    if PROGRAM is None:
        pytest.skip("there is no Chromium")
    browser = Browser(tmp_path / "browser")
    yield browser
    browser.close()


def _browser(site: Site, folder: Path, user: str) -> Iterator[Browser]:  # noqa: F811
    if PROGRAM is None:
        pytest.skip("there is no Chromium")
    browser = Browser(folder)
    try:
        browser.open(site.url(HOME))
        log_in(browser, site, user)
        browser.wait_for_text("Graphs")
        yield browser
    finally:
        browser.close()


@pytest.fixture
def save() -> Save:
    """Save a picture for the docs, if they are wanted."""
    folder = os.environ.get("PICTURES")

    def saving(browser: Browser, name: str) -> None:
        if folder:
            file = Path(folder) / f"{name}.png"
            browser.screenshot(file)
            assert file.stat().st_size < MOST_BYTES

    return saving
