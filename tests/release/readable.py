"""Whether a page in a browser can be read: it is not wider than the window, and its texts are not faint."""

from __future__ import annotations

from pathlib import Path

from tests.e2e.browser import Browser

LEAST = 4.5  # contrast of text in WCAG 2.2, level AA
SCRIPT = Path(__file__).with_name("faint_texts.js").read_text()


def faint_texts(browser: Browser) -> list[str]:
    """Return the visible texts of the page whose contrast to what is behind them is below `LEAST`."""
    found: list[str] = browser.evaluate(SCRIPT.replace("LEAST)", f"{LEAST})"))
    return found


def fits(browser: Browser) -> bool:
    """Return whether the page is not wider than the window; its tables may scroll.

    The width is that of the layout: on a telephone, ``innerWidth`` grows with a page that is too wide.
    """
    page = "document.documentElement"
    return bool(browser.evaluate(f"{page}.scrollWidth <= {page}.clientWidth"))
