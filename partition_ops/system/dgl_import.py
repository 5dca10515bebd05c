"""The import of dgl, through `import_dgl` only.

On its first import, dgl prints a message and writes a file to the home folder to choose a backend, unless an
environment variable names the backend. The import takes seconds, so call `import_dgl` inside the function
that needs it, not at the top of a module.

If the distribution ``packaging`` is not installed, dgl 1.1.3 imports it from setuptools, which has not
contained it since version 71. Therefore this project requires it.
"""

from __future__ import annotations

import importlib
import os
from typing import Any

from partition_ops.system.extras import not_installed


def import_dgl() -> Any:
    """Import dgl with its PyTorch backend; repeated calls are cheap.

    Returns:
        The module ``dgl``, with ``dgl.distributed`` and ``dgl.data.utils``. Its type is Any, because dgl has
        no annotations.

    Raises:
        NotInstalledError: dgl is not installed.
    """
    os.environ.setdefault("DGLBACKEND", "pytorch")  # the only backend that we install
    try:
        return importlib.import_module("dgl")
    except ModuleNotFoundError as error:
        if error.name != "dgl":
            raise
        raise not_installed("This call", "dgl") from error
