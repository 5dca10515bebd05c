"""The menu of the site, and the parts of its pages that are made from the code."""

from __future__ import annotations

import re
import runpy

import pytest

from local_stack.folders import PROJECT
from partition_ops.cli.verb import Verb
from partition_ops.cli.verbs import VERBS
from partition_ops.options.declare import options_of

BUILT = runpy.run_path(str(PROJECT / "docs/built_tables.py"))
DIAGRAMS = runpy.run_path(str(PROJECT / "docs/diagrams.py"))["DIAGRAMS"]
MENU = set(re.findall(r"([\w-]+\.md)$", (PROJECT / "mkdocs.yml").read_text(), re.MULTILINE))


def test_every_page_is_in_the_menu() -> None:
    assert {path.name for path in (PROJECT / "docs").glob("*.md")} | {"README.md"} == MENU


def test_the_messages_are_those_of_the_code() -> None:
    found = BUILT["messages"]()
    assert sum(map(len, found.values())) > 300
    assert "There are more partitions than nodes" in dict(found["UsageError"])
    assert "| There are more partitions than nodes |" in BUILT["messages_by_class"]()


@pytest.fixture(scope="module")
def sections() -> dict[str, str]:
    """The sections of the page of verbs, by heading."""
    found = re.split(r"^##+ (.+)$", BUILT["verbs"](), flags=re.MULTILINE)
    return dict(zip(found[1::2], found[2::2], strict=True))


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.name)
def test_every_verb_and_option_is_on_the_page(verb: Verb, sections: dict[str, str]) -> None:
    assert f"usage: partition-ops {verb.name}" in sections[verb.name]
    for one in verb.verbs or (verb,):
        text = sections[one.name if one is verb else f"{verb.name} {one.name}"]
        options = [each for each in options_of(*one.options) if one.only is None or each.name in one.only]
        assert [each.name for each in options if each.option_string not in text] == []


@pytest.mark.parametrize("name", DIAGRAMS)
def test_the_diagrams_are_as_drawn(name: str) -> None:
    assert (PROJECT / f"docs/images/{name}.svg").read_text() == DIAGRAMS[name](), "run 'make reference'"
