"""Times of pages: as text in UTC, which a script in the page shows in the zone of the viewer."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files

SCRIPT = "local_times.js"


def moment(time: str | datetime) -> str:
    """Return a time as text in UTC, which the script finds; a string is in ISO format with its zone."""
    found = datetime.fromisoformat(time) if isinstance(time, str) else time
    return f"{found.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


@cache
def script_text() -> str:
    """Return the functions of the script, for pages with other scripts."""
    return files("partition_ops.stages.quality").joinpath(SCRIPT).read_text()


@cache
def inline_script() -> str:
    """Return the script for the end of a page that has no other: it is the same for all pages."""
    return f"{script_text()}localize();\n"


@cache
def inline_script_source() -> str:
    """Return `inline_script` as a source of ``script-src`` in a Content-Security-Policy, by its SHA-256."""
    digest = hashlib.sha256(inline_script().encode()).digest()
    return f"'sha256-{b64encode(digest).decode()}'"
