"""Stage ``publish``: the manifest, and then the pointer to the newest run."""

from partition_ops.stages.publish.publish import publish_run, renew_manifest

__all__ = ["publish_run", "renew_manifest"]
