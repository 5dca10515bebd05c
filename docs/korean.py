"""Compare the Korean pages in docs/ko/ with the English pages that they translate.

A Korean page names in its front matter the digest of the English text that it translates. If the English page
has another digest now, the Korean page is older: this is reported, and the site shows a notice on the page. A
page with the digest of today's English page declares itself current. It must have the same code blocks,
headings, links, inline code and figures in tables.

    python docs/korean.py              # list the pages that are older, not translated, or wrong
    python docs/korean.py repair.md    # after the translation was checked: set blocks, links and the digest

The second command also takes a draft: a page without front matter, with the links of the English page, and a
line ``[[block]]`` for each code block.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
from dataclasses import dataclass
from functools import cached_property
from itertools import zip_longest
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[1]
HOME = "README.md"
TRANSLATED = {"Start", "Tutorial", "How-to", "Explanation"}  # sections of the menu
BLOCK = "[[block]]"
NOTICE = """
!!! warning "영어 페이지가 더 새롭습니다"
    이 페이지를 번역한 뒤에 [영어 페이지]({link})가 바뀌었습니다. 서로 다르면 영어 페이지가 맞습니다.
"""

FRONT_MATTER = re.compile(r"\A---\nenglish: (\w+)\n---\n+")
HEADING = re.compile(r"^(#+) +(.+?) *$", re.MULTILINE)
LINK = re.compile(r"(?<=\]\()([^)\s#]*)(#[^)\s]*)?(?=\))")
CODE = re.compile(r"(?<!`)`([^`]+)`(?!`)")
NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
FIGURES = re.compile(r"(?:[\d.,/%→≤≥+() -]|[KMG]i?B\b|m?s\b|초)+")


@dataclass(frozen=True)
class Text:
    """A page: its Markdown without front matter, with `BLOCK` for each code block, and the blocks."""

    prose: str
    blocks: list[str]

    @cached_property
    def headings(self) -> list[tuple[int, str]]:
        """Level and anchor of each heading, as MkDocs and GitHub form them."""
        found = (
            (len(marks), re.sub(r"\]\([^)]*\)", "", title)) for marks, title in HEADING.findall(self.prose)
        )
        return [
            (level, re.sub(r"[^\w\- ]", "", title).strip().lower().replace(" ", "-"))
            for level, title in found
        ]

    @cached_property
    def tables(self) -> list[list[str]]:
        """The cells with nothing but figures of each table, row by row, without their units."""
        tables = re.findall(r"(?:^\|.*\n?)+", CODE.sub("", self.prose), re.MULTILINE)
        cells = [[row.strip("| ").split("|") for row in table.splitlines()] for table in tables]
        return [[" ".join(_figures(cell) for cell in row) for row in table] for table in cells]

    @cached_property
    def code(self) -> set[str]:
        return {" ".join(code.split()) for code in CODE.findall(self.prose)}


def parse(text: str) -> Text:
    """Split a page into prose and code blocks, fenced or indented by four spaces."""
    prose: list[str] = []
    blocks: list[list[str]] = []
    fence = ""
    inside = listed = False
    for line in FRONT_MATTER.sub("", text).splitlines():
        opened = re.match(r" *```+", line)
        if fence:
            blocks[-1].append(line)
            fence = "" if line.rstrip() == fence else fence
        elif opened:
            fence = opened[0]
            blocks.append([line])
            prose.append(BLOCK)
        elif line.startswith("    ") and not listed and (inside or not prose[-1:] or not prose[-1]):
            if not inside:
                blocks.append([])
                prose.append(BLOCK)
            inside = True
            blocks[-1].append(line)
        elif inside and not line:
            blocks[-1].append(line)
        else:
            if inside:
                prose.append("")
            inside = False
            listed = bool(re.match(r"[-*] |\d+\. ", line)) or (listed and line[:1] in ("", " "))
            prose.append(line)
    return Text("\n".join(prose) + "\n", ["\n".join(block).rstrip() for block in blocks])


def _figures(cell: str) -> str:
    """Return the figures of a cell that has no words but units, or "text"."""
    figures = " ".join(NUMBER.findall(cell)) if FIGURES.fullmatch(cell.strip()) else ""
    return figures or "text"


def digest(text: str) -> str:
    """Return the digest of an English page that the Korean page names."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Pages:
    """The pages of a checkout."""

    root: Path

    @property
    def names(self) -> list[str]:
        return sorted(path.name for path in (self.root / "docs/ko").glob("*.md"))

    def path(self, name: str, *, korean: bool) -> Path:
        """Return the path of a page in one of the languages."""
        if korean:
            return self.root / "docs/ko" / name
        return self.root / name if name == HOME else self.root / "docs" / name

    def read(self, name: str, *, korean: bool) -> str:
        return self.path(name, korean=korean).read_text()

    def target(self, link: str, page: Path) -> tuple[str, bool, bool]:
        """Return what a link leads to: its name or path, whether it is a page of docs/, and a Korean one."""
        if re.match(r"[a-z]+:", link):
            return link, False, False
        path = Path(os.path.normpath(page.parent / link)) if link else page
        for korean in (True, False):
            if path.suffix == ".md" and path == self.path(path.name, korean=korean):
                return path.name, True, korean
        if path.parent == self.root / "docs/images/ko":
            path = path.parents[1] / path.name  # the picture that it translates
        return os.path.relpath(path, self.root), False, False

    def is_older(self, name: str) -> bool:
        """Return whether a Korean page translates an earlier text of its English page."""
        found = FRONT_MATTER.match(self.read(name, korean=True))
        if not found or not self.path(name, korean=False).exists():
            return False  # which `problems` reports
        return found[1] != digest(self.read(name, korean=False))

    def notice(self, name: str) -> str:
        """Return what the site shows on a Korean page that is older, and nothing for others."""
        if not self.is_older(name):
            return ""
        english = os.path.relpath(self.path(name, korean=False), self.path(name, korean=True).parent)
        return NOTICE.format(link=english)

    def not_translated(self) -> list[str]:
        """Return the pages of the translated sections of the menu that have no Korean page."""
        menu = (self.root / "mkdocs.yml").read_text()
        sections = yaml.safe_load(menu[menu.index("\nnav:") :])["nav"]

        def pages(entry: object) -> list[str]:
            if isinstance(entry, dict):
                return [page for value in entry.values() for page in pages(value)]
            if isinstance(entry, list):
                return [page for value in entry for page in pages(value)]
            return [str(entry)] if str(entry).endswith(".md") else []

        wanted = [page for each in sections if TRANSLATED & set(each) for page in pages(each)]
        return sorted(set(wanted) - set(self.names))

    def problems(self, name: str) -> list[str]:
        """Return what contradicts the digest of a Korean page, and nothing for an older page."""
        if not self.path(name, korean=False).exists():
            return [f"there is no English page {name}"]
        text = self.read(name, korean=True)
        if not FRONT_MATTER.match(text):
            return ["its front matter does not have a line 'english: DIGEST'"]
        return [] if self.is_older(name) else self.differences(name, parse(text))

    def differences(self, name: str, korean: Text) -> list[str]:
        """Return how the parts of a Korean page that no translation changes differ from the English page."""
        english = parse(self.read(name, korean=False))
        found = []
        for number, (ours, theirs) in enumerate(zip_longest(korean.blocks, english.blocks), 1):
            if ours != theirs:
                found.append(f"code block {number} is not that of the English page: {theirs or '(none)'}")
        if [level for level, _ in korean.headings] != [level for level, _ in english.headings]:
            found.append("its headings have other levels than those of the English page")
        for number, (ours, theirs) in enumerate(zip_longest(korean.tables, english.tables), 1):
            if ours != theirs:
                found.append(f"table {number} has other rows or figures than the English page")
        if korean.code != english.code:
            missing, more = sorted(english.code - korean.code), sorted(korean.code - english.code)
            found.append(f"inline code: {missing} are missing, {more} are not on the English page")
        targets = {self.target(link, self.path(name, korean=True)) for link, _ in LINK.findall(korean.prose)}
        wanted = {
            self.target(link, self.path(name, korean=False))[0] for link, _ in LINK.findall(english.prose)
        }
        if {target for target, _, _ in targets} != wanted:
            missing, more = wanted - {each[0] for each in targets}, {each[0] for each in targets} - wanted
            found.append(f"links: {sorted(missing)} are missing, {sorted(more)} are not on the English page")
        for target, is_page, is_korean in sorted(targets):
            if is_page and not is_korean and target in self.names and target != name:
                found.append(f"a link leads to the English page {target}, which has a Korean page")
        return found

    def with_links(self, name: str, prose: str, *, written_for: Path) -> str:
        """Return a Korean text with links to Korean pages, and their anchors, where these exist."""
        page = self.path(name, korean=True)

        def lead(found: re.Match[str]) -> str:
            target, is_page, _ = self.target(found[1], written_for)
            anchor = (found[2] or "")[1:]
            if not is_page:
                if re.match(r"[a-z]+:", target):
                    return found[0]
                path = self.root / target
                translated = path.parent / "ko" / path.name
                chosen = translated if translated.exists() else path
                return os.path.relpath(chosen, page.parent) + (found[2] or "")
            own_twin = target == name and found[1] != "" and not anchor  # the link to the other language
            korean = target in self.names and not own_twin
            if anchor and korean:
                text = prose if target == name else parse(self.read(target, korean=True)).prose
                theirs = parse(self.read(target, korean=False)).headings
                for (_, english), (_, ours) in zip(theirs, Text(text, []).headings, strict=False):
                    if english == anchor:
                        anchor = ours
                        break
            path = self.path(target, korean=korean)
            shown = "" if path == page else os.path.relpath(path, page.parent)
            return shown + (f"#{anchor}" if anchor else "")

        return LINK.sub(lead, prose)

    def renew(self, name: str) -> list[str]:
        """Set blocks, links and the digest of a page that was checked; return what is wrong with it."""
        for korean in (True, False):
            if not self.path(name, korean=korean).exists():
                return [f"there is no {'Korean' if korean else 'English'} page {name}"]
        page, english = self.path(name, korean=True), self.read(name, korean=False)
        text = page.read_text()
        korean, blocks = parse(text), parse(english).blocks
        if korean.prose.count(BLOCK) != len(blocks):
            return [f"it has {korean.prose.count(BLOCK)} code blocks, the English page has {len(blocks)}"]
        draft = not FRONT_MATTER.match(text)
        prose = self.with_links(name, korean.prose, written_for=self.path(name, korean=not draft))
        if found := self.differences(name, Text(prose, blocks)):
            return found
        self.write(name, digest(english), Text(prose, blocks))
        for other in self.names:
            if mark := FRONT_MATTER.match(self.read(other, korean=True)):
                old = parse(self.read(other, korean=True))
                new = self.with_links(other, old.prose, written_for=self.path(other, korean=True))
                self.write(other, mark[1], Text(new, old.blocks))
        return []

    def write(self, name: str, translated: str, text: Text) -> None:
        parts = text.prose.split(BLOCK)
        body = "".join(part + block for part, block in zip_longest(parts, text.blocks, fillvalue=""))
        self.path(name, korean=True).write_text(f"---\nenglish: {translated}\n---\n\n{body}")


def main(names: list[str]) -> int:
    pages = Pages(ROOT)
    failed = False
    for name in names:
        found = pages.renew(name)
        failed |= bool(found)
        print("\n".join(f"{name}: {each}" for each in found) or f"{name} is current")
    if names:
        return int(failed)
    for name in pages.names:
        found = pages.problems(name)
        failed |= bool(found)
        for each in found:
            print(f"docs/ko/{name}: {each}")
        if not found and pages.is_older(name):
            print(f"docs/ko/{name} is older than its English page")
    for name in pages.not_translated():
        print(f"{name} has no Korean page")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
