"""What all formulas are given."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from partition_ops.jobs.estimate.sizes import Sizes
from partition_ops.jobs.options import RunConfig

MIB = 1 << 20
PYTHON = 45 * MIB  # the process itself
READERS = 100 * MIB  # pyarrow and numpy
COMPILED = 75 * MIB  # numba, and what it has compiled
S3 = 30 * MIB  # boto3
LIBRARIES = 100 * MIB  # of the above, pages of files
PARSED = 80 * MIB  # a block of edges: its text and its columns
PARSED_TIMES = 5  # ... or so many times its file, if that is small


@dataclass(frozen=True)
class Job:
    """A job on a machine.

    Attributes:
        sizes: Of the graph.
        config: Options.
        limit: Bytes of memory that there are: some stages take a share of it.
        cores: Processors that do the work.
        remote_source: Whether the graph is on S3.
        remote_destination: Whether the output goes there.
    """

    sizes: Sizes
    config: RunConfig
    limit: int
    cores: int
    remote_source: bool
    remote_destination: bool

    @property
    def base(self) -> int:
        """Bytes that a process takes before it does anything."""
        remote = S3 if self.remote_source or self.remote_destination else 0
        return PYTHON + READERS + COMPILED + remote

    @property
    def block(self) -> int:
        """Bytes of the edges that a core is reading."""
        return min(PARSED, PARSED_TIMES * self.sizes.largest_edge_file)

    @property
    def parts(self) -> int:
        return self.config.num_parts

    def fetched(self, size: int) -> int:
        """Bytes of a copy of something of the input."""
        return size if self.remote_source else 0

    def fetched_back(self, size: int) -> int:
        """Bytes of a copy of something of the output, or of what is on its way there."""
        return size if self.remote_destination else 0


def largest(values: Sequence[int], count: int) -> int:
    """Sum of the first ``count`` values of those that are sorted, most first."""
    return sum(values[:count])
