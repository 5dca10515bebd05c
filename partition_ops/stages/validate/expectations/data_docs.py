"""Data Docs as plain HTML: no scripts, nothing from the network, no times.

Only the child process imports this module. Great Expectations' own pages load scripts, styles and a counting
pixel from other servers, build their index by script and show the time. Here its site builder makes
pages of the same content from the templates in ``pages/``.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, ClassVar

from great_expectations.render.view.view import DefaultJinjaPageView
from jinja2 import ChoiceLoader, Environment, FileSystemLoader

TEMPLATES = Path(__file__).parent / "pages"
_VIEWS = __name__
SITE_FOLDER = "data_docs/"
_NO_ASSET = "${data_asset} ${data_asset_name}\n "
SITE: dict[str, Any] = {
    "class_name": "SiteBuilder",
    "show_how_to_buttons": False,
    "store_backend": {
        "class_name": "TupleFilesystemStoreBackend",
        "base_directory": SITE_FOLDER,
    },
    "site_index_builder": {
        "class_name": "DefaultSiteIndexBuilder",
        "view": {"module_name": _VIEWS, "class_name": "IndexView"},
    },
    "site_section_builders": {
        "expectations": {"view": {"module_name": _VIEWS, "class_name": "PageView"}},
        "validations": {"view": {"module_name": _VIEWS, "class_name": "PageView"}},
        "profiling": "None",
    },
}


class PageView(DefaultJinjaPageView):
    """A page with our templates before those of Great Expectations.

    The site builder makes new views for every table. They share one Jinja environment, because compiling
    the templates takes longer than anything else here.
    """

    _environment: ClassVar[Environment | None] = None

    def __init__(self, custom_styles_directory: Any = None, custom_views_directory: Any = None) -> None:
        super().__init__()
        if PageView._environment is None:
            theirs = [self.env.loader] if self.env.loader else []
            self.env.loader = ChoiceLoader([FileSystemLoader(TEMPLATES), *theirs])
            PageView._environment = self.env
        self.env = PageView._environment

    def render_string_template(self, template: Any) -> Any:
        """Render without the line in the header that says that there is no asset name."""
        if isinstance(template, dict):
            template["template"] = template.get("template", "").replace(_NO_ASSET, "")
        return super().render_string_template(template)  # type: ignore[no-untyped-call]


class IndexView(PageView):
    """The first page."""

    _template = "index_page.j2"


def collect_pages(site: Path, folder: Path) -> None:
    """Copy the pages of a site, without its pictures and fonts.

    A result lies four folders deep there, one of them the time of the run; here it is
    ``validations/<table>.html``.
    """
    for name in ("expectations", "validations"):
        (folder / name).mkdir(parents=True)
    index = (site / "index.html").read_text()
    for page in (site / "expectations").glob("*.html"):
        shutil.copyfile(page, folder / "expectations" / page.name)
    for page in (site / "validations").rglob("*.html"):
        old = page.relative_to(site)
        new = f"validations/{old.parts[1]}.html"
        up = "../" * (len(old.parts) - 1)
        (folder / new).write_text(page.read_text().replace(up, "../"))
        index = index.replace(old.as_posix(), new)
    (folder / "index.html").write_text(index)
