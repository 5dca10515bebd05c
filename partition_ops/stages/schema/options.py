"""Options of ``schema``."""

from __future__ import annotations

from dataclasses import dataclass

from partition_ops.options.declare import StageConfig


@dataclass(frozen=True, kw_only=True)
class SchemaConfig(StageConfig):
    """Options of ``schema``."""
