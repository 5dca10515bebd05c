"""Korean pages name the English text that they translate; those that translate today's text agree with it."""

from __future__ import annotations

import re
import runpy
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

from docs.korean import Pages, digest
from local_stack.folders import PROJECT

PAGES = Pages(PROJECT)
DIAGRAMS = runpy.run_path(str(PROJECT / "docs/diagrams.py"))
REMEDY = "check the translation, then run '.venv/bin/python docs/korean.py {name}'"

ENGLISH = """# Halo

Some [words](other.md#second) about `code`, and a [file](../LICENSE). ![a](images/a.svg)![b](images/b.svg)

```python
x = 1
```

## Sizes

| a | 1 |
|---|---|
| b | 2 |

    a command
"""
DRAFT = """# 헤일로

`code`에 관한 [말](other.md#second)과 [파일](../LICENSE)입니다. ![가](images/a.svg)![나](images/b.svg)

[[block]]

## 크기

| 가 | 1 |
|---|---|
| 나 | 2 |

[[block]]
"""
OTHER = (
    "# Other\n\n## Second\n\nWords, see [sizes](halo.md#sizes).\n",
    "# 다른 페이지\n\n## 둘째 절\n\n말, [크기](halo.md#sizes).\n",
)


@pytest.mark.parametrize("name", PAGES.names)
def test_a_page_that_is_not_older_agrees_with_the_english_page(name: str) -> None:
    if PAGES.is_older(name):
        warnings.warn(
            f"docs/ko/{name} is older than its English page; {REMEDY.format(name=name)}",
            UserWarning,  # a class of this module would be unknown to the process that reports
            stacklevel=1,
        )
    assert PAGES.problems(name) == [], REMEDY.format(name=name)


def test_the_start_page_is_translated() -> None:
    assert "README.md" in PAGES.names
    if missing := PAGES.not_translated():
        warnings.warn(f"English pages without a Korean page: {missing}", UserWarning, stacklevel=1)


@pytest.mark.parametrize("name", PAGES.names)
def test_words_and_endings_are_the_same_on_all_pages(name: str) -> None:
    text = PAGES.read(name, korean=True)
    assert (
        re.findall(
            r"엣지|피쳐|미니 배치|미니-배치|서브 그래프|포멧|메타 데이터|셀프 루프|파티션닝|트레이닝", text
        )
        == []
    )
    assert re.findall(r".*(?<!니)다\.(?!\w).*", text) == []  # sentences end in -니다


def test_both_glossaries_have_the_same_terms() -> None:
    rows = [
        re.findall(r"^\| ([^|]+) \| ([^|]+) \|", PAGES.read("glossary.md", korean=korean), re.MULTILINE)
        for korean in (False, True)
    ]
    assert rows[0][1:] == rows[1][1:]
    assert len(rows[0]) > 40


@pytest.mark.parametrize("name", [name for name in DIAGRAMS["DIAGRAMS"] if name not in DIAGRAMS["ENGLISH"]])
def test_the_diagrams_have_the_korean_words(name: str) -> None:
    path = PROJECT / f"docs/images/ko/{name}.svg"
    assert path.read_text() == DIAGRAMS["in_korean"](DIAGRAMS["DIAGRAMS"][name]()), "run 'make reference'"


@pytest.mark.parametrize("name", DIAGRAMS["ENGLISH"])
def test_a_diagram_with_english_words_only_is_on_no_korean_page(name: str) -> None:
    shown = [path.name for path in (PROJECT / "docs/ko").glob("*.md") if f"{name}.svg" in path.read_text()]
    assert not shown


def test_every_korean_word_is_in_a_diagram() -> None:
    drawn = "".join(draw() for draw in DIAGRAMS["DIAGRAMS"].values())
    assert [words for words in DIAGRAMS["KOREAN"] if words not in drawn] == []


@pytest.fixture
def pages(tmp_path: Path) -> Pages:
    """A checkout with two English pages, and drafts of their translations."""
    (tmp_path / "docs/ko").mkdir(parents=True)
    (tmp_path / "docs/images/ko").mkdir(parents=True)
    for file in ("LICENSE", "docs/images/a.svg", "docs/images/b.svg", "docs/images/ko/a.svg"):
        (tmp_path / file).touch()
    (tmp_path / "mkdocs.yml").write_text(
        "a: !!python/x\nnav:\n- How-to:\n  - Halo: halo.md\n  - Other: other.md\n"
    )
    (tmp_path / "docs/halo.md").write_text(ENGLISH)
    (tmp_path / "docs/other.md").write_text(OTHER[0])
    (tmp_path / "docs/ko/halo.md").write_text(DRAFT)
    return Pages(tmp_path)


def change(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_renew_sets_blocks_and_links_and_the_digest(pages: Pages) -> None:
    assert pages.renew("halo.md") == []
    text = pages.read("halo.md", korean=True)
    assert text.startswith(f"---\nenglish: {digest(ENGLISH)}\n---\n\n# 헤일로\n")
    assert "```python\nx = 1\n```" in text
    assert text.endswith("\n    a command\n")
    assert "[말](../other.md#second)" in text
    assert "[파일](../../LICENSE)" in text
    assert "![가](../images/ko/a.svg)![나](../images/b.svg)" in text
    assert pages.not_translated() == ["other.md"]
    assert pages.problems("halo.md") == []

    # When the other page is translated, links of both pages lead to Korean headings.
    (pages.root / "docs/ko/other.md").write_text(OTHER[1])
    assert "a link leads to the English page other.md, which has a Korean page" in pages.problems("halo.md")
    assert pages.renew("other.md") == []
    assert "[말](other.md#둘째-절)" in pages.read("halo.md", korean=True)
    assert "[크기](halo.md#크기)" in pages.read("other.md", korean=True)
    assert pages.not_translated() == []
    assert [pages.problems(name) for name in pages.names] == [[], []]


def test_a_page_is_older_if_the_english_text_has_changed(pages: Pages) -> None:
    pages.renew("halo.md")
    assert pages.notice("halo.md") == ""
    change(pages.root / "docs/halo.md", "Some", "A few")
    assert pages.is_older("halo.md")
    assert pages.problems("halo.md") == []
    assert "[영어 페이지](../halo.md)" in pages.notice("halo.md")

    change(pages.root / "docs/halo.md", "x = 1", "x = 2")
    assert pages.renew("halo.md") == []
    assert not pages.is_older("halo.md")
    assert "x = 2" in pages.read("halo.md", korean=True)


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("x = 1", "x = 2", "code block 1 is not that of the English page"),
        ("    a command\n", "", "code block 2 is not that of the English page"),
        ("## 크기", "### 크기", "its headings have other levels"),
        ("| 나 | 2 |", "| 나 | 3 |", "table 1 has other rows or figures"),
        ("| 나 | 2 |\n", "", "table 1 has other rows or figures"),
        ("`code`", "`node`", "inline code: ['code'] are missing, ['node'] are not on the English page"),
        ("../../LICENSE", "../../README.md", "links: ['LICENSE'] are missing, ['README.md'] are not"),
        ("---\nenglish:", "---\nkorean:", "its front matter does not have a line"),
    ],
)
def test_a_page_that_says_it_is_current_must_agree(pages: Pages, old: str, new: str, problem: str) -> None:
    pages.renew("halo.md")
    change(pages.root / "docs/ko/halo.md", old, new)
    assert any(found.startswith(problem) for found in pages.problems("halo.md"))


@pytest.mark.parametrize(
    "harm", [lambda text: text.replace("[[block]]\n", "", 1), lambda text: text.replace("## ", "")]
)
def test_renew_does_not_accept_a_page_that_differs(pages: Pages, harm: Callable[[str], str]) -> None:
    path = pages.root / "docs/ko/halo.md"
    path.write_text(harm(DRAFT))
    assert pages.renew("halo.md") != []
    assert path.read_text() == harm(DRAFT)


def test_a_page_without_an_english_page_is_a_problem(pages: Pages) -> None:
    (pages.root / "docs/ko/more.md").write_text("# 더\n")
    assert pages.problems("more.md") == ["there is no English page more.md"]
    assert pages.renew("more.md") == ["there is no English page more.md"]
    assert pages.renew("other.md") == ["there is no Korean page other.md"]
    assert pages.renew("halo.md") == []
    (pages.root / "docs/halo.md").unlink()
    assert not pages.is_older("halo.md")
    assert pages.problems("halo.md") == ["there is no English page halo.md"]
