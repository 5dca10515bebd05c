"""The menu of the site, and the parts of its pages that are made from the code."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

from local_stack.folders import PROJECT
from partition_ops.cli.verb import ListedVerb
from partition_ops.cli.verbs import VERBS
from partition_ops.options.declare import options_of
from tests.pages import NOT_RUN, commands_to_run, indented_commands

# the tests that run the commands and the code of pages; `NOT_RUN` has the commands that no test runs
RUN_BY = {
    "CONTRIBUTING.md": ["tests/contributing.py", "tests/integration/test_adding_a_check.py"],
    "README.md": ["tests/integration/test_readme.py", "tests/integration/test_documentation.py"],
    "docs/airflow.md": ["tests/unit/dags/test_dags.py", "tests/release/test_pages_of_the_docs.py"],
    "docs/distributed.md": ["tests/guide/test_servers.py"],
    "docs/expectations.md": ["tests/integration/test_expectations.py"],
    "docs/graphbolt.md": ["tests/compat/test_dgl2.py"],
    "docs/id-maps.md": ["tests/integration/test_idmap_restore.py"],
    "docs/kubernetes.md": ["tests/unit/plugins/test_pods.py", "tests/integration/test_documentation.py"],
    "docs/parmetis.md": [
        "tests/integration/test_convert_partition.py",
        "tests/integration/test_documentation.py",
    ],
    "docs/pyg.md": ["tests/compat/test_pyg_page.py"],
    "docs/sampling.md": ["tests/guide/test_two_servers.py"],
    "docs/tables.md": ["tests/integration/test_table_pages.py"],
    "docs/training.md": ["tests/e2e/test_dist_graph.py"],
    "docs/link-prediction.md": ["tests/integration/test_table_pages.py"],
    "docs/tutorial.md": ["tests/integration/test_table_pages.py"],
    **{
        f"docs/{name}.md": ["tests/integration/test_documentation.py"]
        for name in (
            *(
                "balance",
                "compose",
                "estimate",
                "from-dgl",
                "from-graphstorm",
                "growth",
                "manifest-last",
                "partition",
            ),
            *("reliability", "repair", "schedule", "text-embeddings", "validation", "verify"),
        )
    },
}
BUILT = runpy.run_path(str(PROJECT / "docs/built_tables.py"))
DIAGRAMS = runpy.run_path(str(PROJECT / "docs/diagrams.py"))["DIAGRAMS"]
MENU = set(re.findall(r"([\w-]+\.md)$", (PROJECT / "mkdocs.yml").read_text(), re.MULTILINE))


def test_every_page_is_in_the_menu() -> None:
    assert {path.name for path in (PROJECT / "docs").glob("*.md")} | {"README.md"} == MENU


@pytest.fixture(scope="module")
def sections() -> dict[str, str]:
    """The sections of the page of verbs, by heading."""
    found = re.split(r"^##+ (.+)$", BUILT["verbs"](), flags=re.MULTILINE)
    return dict(zip(found[1::2], found[2::2], strict=True))


@pytest.mark.parametrize("listed", VERBS, ids=lambda listed: listed.name)
def test_every_verb_and_option_is_on_the_page(listed: ListedVerb, sections: dict[str, str]) -> None:
    assert f"usage: partition-ops {listed.name}" in sections[listed.name]
    for one in listed.verb.verbs or (listed,):
        text, verb = sections[one.name if one is listed else f"{listed.name} {one.name}"], one.verb
        options = [each for each in options_of(*verb.options) if verb.only is None or each.name in verb.only]
        assert [each.name for each in options if each.option_string not in text] == []


@pytest.mark.parametrize("name", DIAGRAMS)
def test_the_diagrams_are_as_drawn(name: str) -> None:
    assert (PROJECT / f"docs/images/{name}.svg").read_text() == DIAGRAMS[name](), "run 'make reference'"


PAGES = [
    PROJECT / "README.md",
    PROJECT / "CONTRIBUTING.md",
    *(PROJECT / "docs").glob("*.md"),
]


def test_every_command_and_block_is_run() -> None:
    """All but those of `NOT_RUN`; test_public_api.py compares docs/reference.md with the code."""
    blocks = re.compile(r"^```(?:python|bash|sh)\b(?! of )", re.MULTILINE)
    found = {
        str(page.relative_to(PROJECT))
        for page in PAGES
        if page.name != "reference.md" and (blocks.search(page.read_text()) or commands_to_run(page))
    }
    assert found == set(RUN_BY)
    for page, tests in RUN_BY.items():
        assert any(Path(page).stem in (PROJECT / test).read_text() for test in tests), page


def test_commands_that_are_not_run_are_on_a_page_and_have_a_reason() -> None:
    shown = {command for page in PAGES for command in indented_commands(page)}
    assert set(NOT_RUN) <= shown
    assert all(NOT_RUN.values())


@pytest.mark.parametrize("page", [*PAGES, *(PROJECT / "docs/ko").glob("*.md")], ids=lambda page: str(page))
def test_lists_are_read_alike_by_the_site_and_by_git_servers(page: Path) -> None:
    """What belongs to an item is indented by four spaces, or MkDocs ends the list before it."""
    text = re.sub(r"^( *)```.*?^\1```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    assert re.findall(r"\n\n {1,3}\S.*|\n\n {5,7}\S.*", text) == []
