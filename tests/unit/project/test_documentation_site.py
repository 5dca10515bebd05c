"""The menu of the site, and the parts of its pages that are made from the code."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

from local_stack.folders import PROJECT
from partition_ops.cli.verb import Verb
from partition_ops.cli.verbs import VERBS
from partition_ops.options.declare import options_of
from tests.pages import indented_commands

# which test runs the commands and the code of a page
RUN_BY = {
    "CONTRIBUTING.md": "tests/contributing.py",
    "README.md": "tests/integration/test_readme.py",
    "docs/airflow.md": "tests/unit/dags/test_dags.py",
    "docs/distributed.md": "tests/guide/test_servers.py",
    "docs/graphbolt.md": "tests/compat/test_dgl2.py",
    "docs/id-maps.md": "tests/integration/test_idmap_restore.py",
    "docs/parmetis.md": "tests/integration/test_convert_partition.py",
    "docs/pyg.md": "tests/compat/test_pyg_page.py",
    "docs/sampling.md": "tests/guide/test_two_servers.py",
    "docs/tables.md": "tests/integration/test_table_pages.py",
    "docs/training.md": "tests/e2e/test_dist_graph.py",
    "docs/tutorial.md": "tests/integration/test_table_pages.py",
    **dict.fromkeys(
        [
            *("docs/estimate.md", "docs/from-dgl.md", "docs/from-graphstorm.md", "docs/growth.md"),
            *("docs/manifest-last.md", "docs/partition.md", "docs/repair.md", "docs/schedule.md"),
            "docs/verify.md",
        ],
        "tests/integration/test_documentation.py",
    ),
}
# commands and blocks that no test runs as they stand: they need containers, a cluster, S3 or an hour
NOT_RUN = {
    "docs/airflow.md": 3,  # curl and airflow connections; the end-to-end tests call the same API
    "docs/compose.md": 3,  # .ci/test_compose does the same
    "docs/expectations.md": 1,  # test_validate_docs.py runs its suite
    "docs/kubernetes.md": 1,  # tests/compose/test_pods.py has such an operator
    "docs/operations.md": 4,
    "docs/reliability.md": 3,
    "docs/validation.md": 1,  # a synopsis
}
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


def commands_and_blocks(page: str) -> int:
    text = (PROJECT / page).read_text()
    blocks = re.findall(r"^```(?:python|bash|sh)\b(?! of )", text, re.MULTILINE)
    return len(blocks) + len(indented_commands(PROJECT / page))


def test_every_command_and_block_is_run_or_counted() -> None:
    pages = [f"docs/{path.name}" for path in (PROJECT / "docs").glob("*.md")]
    pages.remove("docs/reference.md")  # signatures, which test_public_api.py compares with the code
    found = {
        page: count
        for page in ["CONTRIBUTING.md", "README.md", *pages]
        if (count := commands_and_blocks(page))
    }
    assert {page: count for page, count in found.items() if page not in RUN_BY or page in NOT_RUN} == {
        **NOT_RUN,
        "docs/airflow.md": NOT_RUN["docs/airflow.md"] + 3,
    }
    for page, test in RUN_BY.items():
        assert Path(page).stem in (PROJECT / test).read_text(), page
