"""Shares of ``--memory``: the engine's, and how many bytes of rows this process has in memory at a time."""

from __future__ import annotations

import os
from dataclasses import dataclass

from partition_ops.errors import UsageError
from partition_ops.system.memory import memory_limit

LEAST_MEMORY = 512 << 20
PROCESS = 128 << 20  # Python and its libraries
BLOCK_SHARE, LEAST_BLOCK, MOST_BLOCK = 32, 16 << 20, 64 << 20
BLOCKS = 6  # blocks of rows that exist at the same time: as they came, ordered, as features, and as they go
ENGINE_SHARE = 0.75  # of the rest; DuckDB needs more than its limit, because it does not count everything
ENGINE_THREAD = 96 << 20  # least memory of each thread of the engine


@dataclass(frozen=True)
class MemoryShares:
    """Shares of the memory of this process, in bytes.

    Attributes:
        total: All of it.
    """

    total: int

    @property
    def block(self) -> int:
        """Rows in memory at a time."""
        return min(max(self.total // BLOCK_SHARE, LEAST_BLOCK), MOST_BLOCK)

    @property
    def engine(self) -> int:
        """The limit of the engine."""
        return int((self.total - PROCESS - BLOCKS * self.block) * ENGINE_SHARE)

    @property
    def threads(self) -> int:
        """Threads of the engine, fewer than there are processors if memory is short."""
        processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
        return max(min(processors, self.engine // ENGINE_THREAD), 1)


def share_memory(memory: int | None) -> MemoryShares:
    """Return the shares of ``--memory``; by default it is a quarter of what the machine or its cgroup allows.

    Raises:
        UsageError: It is less than any table needs.
    """
    if memory is None:
        return MemoryShares(max(memory_limit() // 4, LEAST_MEMORY))
    if memory < LEAST_MEMORY:
        raise UsageError(
            "--memory is too small for tables",
            found=f"{memory / (1 << 20):.0f}M",
            expected=f"{LEAST_MEMORY >> 20}M or more, which ingest needs for tables of any size",
            remedy=f"Set --memory {LEAST_MEMORY >> 20}M, or leave it out.",
        )
    return MemoryShares(memory)
