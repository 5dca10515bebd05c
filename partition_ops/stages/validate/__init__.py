"""Stage ``validate``: everything that would make a later stage fail, or worse, quietly wrong."""

from partition_ops.stages.validate.validate import validate_graph

__all__ = ["validate_graph"]
