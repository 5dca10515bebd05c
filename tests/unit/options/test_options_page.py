"""The tables of options in the docs, and the schema of settings, are those of the declarations."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from partition_ops.cli.verb import ListedVerb
from partition_ops.cli.verbs import VERBS
from partition_ops.options.declare import options_of

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "options.md"
TABLES = runpy.run_path(str(ROOT / "docs" / "tables.py"))


def test_the_page_is_made_of_the_declarations() -> None:
    assert TABLES["with_tables"](PAGE.read_text()) == PAGE.read_text(), "run 'make reference'"


def test_the_schema_of_settings_is_made_of_the_declarations() -> None:
    assert TABLES["SETTINGS"].read_text() == TABLES["settings_document"](), "run 'make reference'"


@pytest.mark.parametrize(
    "listed", [one for listed in VERBS for one in (listed.verb.verbs or (listed,))], ids=lambda one: one.name
)
def test_the_page_has_every_option_of_a_verb(listed: ListedVerb) -> None:
    page = PAGE.read_text()
    assert [
        one.name for one in options_of(*listed.verb.options) if f"| `{one.option_string}" not in page
    ] == []
