"""Options that every stage takes."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from partition_ops.options.declare import Options, option

MOST_PARTS = 65536


@dataclass(frozen=True, kw_only=True)
class StageConfig(Options):
    """Options that every stage takes."""

    graph_name: str | None = option(
        None,
        help="Name of the graph, used instead of the name in metadata.json. It consists of letters, digits"
        " and underscores.",
        title="Graph name",
        section="More",
        metavar="NAME",
        empty="the name in metadata.json",
        form={"pattern": "^[A-Za-z_][A-Za-z0-9_]*$", "maxLength": 200},
    )

    def options(self) -> dict[str, Any]:
        """Return the options as JSON, for records and the manifest."""
        return asdict(self)
