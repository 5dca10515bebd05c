"""One small interface over a local folder and an S3 bucket."""

from partition_ops.storage.s3_settings import StorageSettings
from partition_ops.storage.store import Artifact, Store, StoredObject
from partition_ops.storage.uris import open_store

__all__ = ["Artifact", "StorageSettings", "Store", "StoredObject", "open_store"]
