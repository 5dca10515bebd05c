"""mkdocs.yml names every page of docs/, so that ``make docs`` finds none that no menu leads to."""

from __future__ import annotations

import re

from local_stack.folders import PROJECT

MENU = set(re.findall(r"([\w-]+\.md)$", (PROJECT / "mkdocs.yml").read_text(), re.MULTILINE))


def test_every_page_is_in_the_menu() -> None:
    assert {path.name for path in (PROJECT / "docs").glob("*.md")} | {"README.md"} == MENU


def test_korean_pages_have_english_twins() -> None:
    korean = {path.name for path in (PROJECT / "docs/ko").glob("*.md")}
    assert korean <= MENU | {"glossary.md"}
