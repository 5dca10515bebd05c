"""The one way in which this project imports dgl.

On its first import dgl prints, and writes a file in the home folder, to choose a backend: that is
settled here, before it runs. The import takes seconds, so call `import_dgl` inside the function that
needs it and not at the top of a module.

dgl 1.1.3 also takes the distribution ``packaging`` from setuptools, where setuptools has not carried it
since version 71, but only when ``packaging`` is not installed: hence it is one of our dependencies.
"""

from __future__ import annotations

import importlib
import os
from typing import Any


def import_dgl() -> Any:
    """Import dgl with its PyTorch backend; cheap when that has been done before.

    Returns:
        The module ``dgl``; ``dgl.distributed`` and ``dgl.data.utils`` are loaded with it. It is typed
        as Any, since dgl has no annotations.
    """
    os.environ.setdefault("DGLBACKEND", "pytorch")  # the only backend that we install
    return importlib.import_module("dgl")
