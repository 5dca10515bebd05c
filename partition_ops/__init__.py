"""Validate, partition, convert and map heterogeneous graphs for DGL's distributed training.

This package exports the public API; docs/reference.md describes it. Importing it is cheap: each name is
imported on first use. The library never imports Airflow.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from partition_ops.api import RunResult, run, verify
    from partition_ops.artifacts.partition_book import PartitionBook
    from partition_ops.artifacts.tasks import StageResult
    from partition_ops.chunked.id_converter import IDConverter, InvalidIdError
    from partition_ops.errors import (
        ConflictError,
        EngineError,
        InvalidInputError,
        NotEnoughRoomError,
        PartitionOpsError,
        QualityGateError,
        StorageError,
        TransientStorageError,
        UsageError,
        VerificationError,
    )
    from partition_ops.storage import StorageSettings, Store, open_store
    from partition_ops.train import PartitionedGraph
    from partition_ops.verification import VerifyReport

__version__ = "0.2.0"

__all__ = [
    "ConflictError",
    "EngineError",
    "IDConverter",
    "InvalidIdError",
    "InvalidInputError",
    "NotEnoughRoomError",
    "PartitionBook",
    "PartitionOpsError",
    "PartitionedGraph",
    "QualityGateError",
    "RunResult",
    "StageResult",
    "StorageError",
    "StorageSettings",
    "Store",
    "TransientStorageError",
    "UsageError",
    "VerificationError",
    "VerifyReport",
    "__version__",
    "open_store",
    "run",
    "verify",
]

_MODULES = {
    "IDConverter": "chunked.id_converter",
    "InvalidIdError": "chunked.id_converter",
    "PartitionBook": "artifacts.partition_book",
    "PartitionedGraph": "train",
    "RunResult": "api",
    "StageResult": "artifacts.tasks",
    "StorageSettings": "storage",
    "Store": "storage",
    "VerifyReport": "verification",
    "open_store": "storage",
    "run": "api",
    "verify": "api",
}


def __getattr__(name: str) -> Any:
    if name == "ingest":  # a module
        return import_module(f"{__name__}.ingest")
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES.get(name, 'errors')}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
