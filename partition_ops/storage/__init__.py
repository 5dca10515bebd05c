"""One small interface over a local folder and an S3 bucket."""

from partition_ops.storage.base import Artifact, Store, StoredObject
from partition_ops.storage.factory import open_store
from partition_ops.storage.settings import StorageSettings

__all__ = ["Artifact", "StorageSettings", "Store", "StoredObject", "open_store"]
