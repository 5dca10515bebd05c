"""What MkDocs does for this site beyond its settings in mkdocs.yml.

- Markers ``<!-- built: NAME -->`` are replaced by what `built_tables` makes of the code.
- The start page is the README of the repository, and ``decisions/`` gets a list of the decisions.
- Links to files of the repository outside of docs/ lead to pages with the text of these files.
- Pages in docs/ko/ have Korean buttons, and the menu of their English twins. Entries of pages that are not
  translated lead to the English page. A page that is older than its English twin says so.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path, PurePosixPath
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.nav import Link, Navigation, Section
from mkdocs.structure.pages import Page

from partition_ops import __version__

sys.path.insert(0, str(Path(__file__).parent))
from built_tables import TABLES
from korean import HOME, Pages

ROOT = Path(__file__).parents[1]
KOREAN, REPOSITORY = "ko/", "repository/"
LANGUAGES = {".py": "python", ".json": "json", ".yaml": "yaml", ".yml": "yaml"}
FENCED = re.compile(r"^( *```).*?^\1`*$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s#]+)(#[^)\s]*)?\)")
BUILT = re.compile(r"<!-- built: (\w+) -->")
ONLY_SHOWN = re.compile(r"^( *```\w+) +of .*$", re.MULTILINE)  # see tests/pages.py
FENCE_TITLE = re.compile(r"^( *```\w+) +(\S.*)$", re.MULTILINE)
_korean: dict[str, Navigation] = {}
_paths: dict[str, str] = {}  # in the repository, of pages that show its files


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    config.copyright = f"partition-ops {__version__}"
    decisions = sorted(path.name for path in (ROOT / "docs/decisions").glob("*.md"))
    entries: list[Any] = ["decisions/index.md", *(f"decisions/{name}" for name in decisions)]
    for section in config.nav or []:
        for children in section.values():
            if isinstance(children, list):
                children[:] = [{"Decisions": entries} if each == "decisions/" else each for each in children]
    return config


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the pages that are not files of docs/."""
    decisions = [file for file in files if file.src_uri.startswith("decisions/")]
    listed = "".join(f"- [{_title(file)}]({PurePosixPath(file.src_uri).name})\n" for file in decisions)
    text = f"# Design decisions\n\nEach page says what was decided, what was tried, and why.\n\n{listed}"
    files.append(File.generated(config, "decisions/index.md", content=text))
    files.append(File.generated(config, HOME, content=(ROOT / HOME).read_text()))
    pages = [file.src_uri for file in files.documentation_pages()]
    while pages:
        linked = {uri for page in pages for uri in _linked(page, files)}
        pages = sorted(uri for uri in linked if uri.startswith(REPOSITORY) and uri not in files.src_uris)
        for uri in pages:
            files.append(File.generated(config, uri, content=_repository_page(_path(uri))))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Rewrite links for the site, and make what stands behind the language of a block its title."""
    uri = page.file.src_uri
    if "verbs" in BUILT.findall(markdown):
        page.meta["search"] = {"boost": 2}  # whoever pastes an option
    markdown = BUILT.sub(lambda found: TABLES[found[1]](), markdown)
    name = uri.removeprefix(KOREAN)
    if any(name == each for section in config.nav or [] for each in section.values()):
        page.meta["hide"] = ["navigation"]  # its section has no other page
    if name != uri:
        title, rest = markdown.split("\n", 1)
        markdown = f"{title}\n{Pages(ROOT).notice(name)}{rest}"
    if uri.startswith(REPOSITORY):
        page.meta["search"] = {"exclude": True}
        if (ROOT / _path(uri)).suffix != ".md" and (ROOT / _path(uri)).is_file():
            return markdown

    def lead(target: str, heading: str) -> str:
        found = _target(uri, target)
        return f"]({os.path.relpath(found, PurePosixPath(uri).parent) if found else target}{heading})"

    return _outside_fences(
        FENCE_TITLE.sub(r'\1 title="\2"', ONLY_SHOWN.sub(r"\1", markdown)),
        lambda text: LINK.sub(lambda m: lead(m[1], m[2] or ""), text),
    )


def on_nav(nav: Navigation, *, config: MkDocsConfig, files: Files) -> Navigation:
    """Make the menu of the Korean pages."""
    titles: dict[str, str] = config.extra["korean_sections"]
    pages: list[Page] = []

    def twin(item: Any) -> Any:
        if isinstance(item, Section):
            section = Section(titles.get(item.title, item.title), [twin(child) for child in item.children])
            for child in section.children:
                child.parent = section
            return section
        file = files.get_file_from_path(KOREAN + item.file.src_uri)
        if file is None or file.page is None:
            return Link(f"{item.title or _title(item.file)} (en)", item.url)
        if item.parent is None and item.title in titles:
            file.page.title = titles[item.title]
        file.page.previous_page = pages[-1] if pages else None
        if pages:
            pages[-1].next_page = file.page
        pages.append(file.page)
        return file.page

    items = [twin(item) for item in nav.items]
    _korean["nav"] = Navigation(items, pages)
    _korean["nav"].homepage = pages[0] if pages else nav.homepage
    return nav


def on_page_context(context: dict[str, Any], *, page: Page, config: MkDocsConfig, nav: Navigation) -> Any:
    """Set the language of the buttons, the menu, and the links to the other language."""
    uri = page.file.src_uri
    korean = uri.startswith(KOREAN)
    config.theme["language"] = "ko" if korean else "en"
    english = uri.removeprefix(KOREAN)
    twins = {file.src_uri: file.url for file in context["pages"]}
    config.extra["alternate"] = [
        {"name": "English", "lang": "en", "link": twins.get(english, twins[HOME])},
        {"name": "한국어", "lang": "ko", "link": twins.get(KOREAN + english, twins.get(KOREAN + HOME, ""))},
    ]
    if KOREAN + HOME not in twins:
        del config.extra["alternate"]
    if korean:
        context["nav"] = _korean["nav"]
    return context


def _title(file: File) -> str:
    found = re.search(r"^# (.+)$", file.content_string, re.MULTILINE)
    return found[1] if found else file.src_uri


def _path(uri: str) -> str:
    """Return the path in the repository of a page of the site."""
    if uri.startswith(REPOSITORY):
        return _paths[uri]
    return HOME if uri == HOME else f"docs/{uri}"


def _target(uri: str, link: str) -> str | None:
    """Return the page or picture that a link of a page leads to, or None if that is not in the repository."""
    if re.match(r"[a-z]+:", link):
        return None
    path = os.path.normpath(PurePosixPath(_path(uri)).parent / link)
    if path == "docs/decisions":
        return "decisions/index.md"
    if (ROOT / path / HOME).exists():
        path = os.path.normpath(f"{path}/{HOME}")
    if path == HOME or not (ROOT / path).exists() or path.startswith("../"):
        return HOME if path == HOME else None
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    page = REPOSITORY + re.sub(r"(^|/)\.", r"\1", path).removesuffix(".md") + ".md"  # no folders such as .ci
    _paths[page] = path
    return page


def _linked(uri: str, files: Files) -> Iterable[str]:
    file = files.src_uris[uri]
    for found in LINK.finditer(FENCED.sub("", file.content_string)):
        if target := _target(uri, found[1]):
            yield target


def _repository_page(path: str) -> str:
    """Return the text of a page that shows a file or folder of the repository."""
    whole = ROOT / path
    if whole.is_dir():
        names = sorted(each.name for each in whole.iterdir() if each.name[0] not in "._")
        return f"# {path}\n\n" + "".join(f"- [{name}]({PurePosixPath(path).name}/{name})\n" for name in names)
    if path.endswith(".md"):
        return whole.read_text()
    return f"# {path}\n\n````{LANGUAGES.get(whole.suffix, 'text')}\n{whole.read_text()}\n````\n"


def _outside_fences(text: str, change: Callable[[str], str]) -> str:
    parts, end = [], 0
    for fenced in FENCED.finditer(text):
        parts += [change(text[end : fenced.start()]), fenced[0]]
        end = fenced.end()
    return "".join([*parts, change(text[end:])])
