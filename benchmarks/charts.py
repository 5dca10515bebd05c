"""Panels side by side in an SVG file, whose bytes depend on what is drawn alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def panels(path: Path, titles: dict[str, str], size: tuple[float, float]) -> Iterator[Any]:
    """Yield an axis for each panel, to draw on; write the file at the end.

    Args:
        path: The file.
        titles: By the title of each panel, what its lower axis shows.
        size: Width and height in inches.
    """
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "partition-ops"
    from matplotlib import pyplot as plt

    drawing, axes = plt.subplots(1, len(titles), figsize=size)
    yield axes
    for axis, (title, below) in zip(axes, titles.items(), strict=True):
        axis.set_title(title, fontsize=10)
        axis.set_xlabel(below)
        axis.spines[["top", "right"]].set_visible(False)
    drawing.tight_layout()
    drawing.savefig(path, format="svg", metadata={"Date": None})
    plt.close(drawing)
