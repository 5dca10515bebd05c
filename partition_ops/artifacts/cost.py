"""What the cost of a stage is computed from, and its result; no heavy library is imported.

The cost of each stage is in its ``cost.py``: the formulas of its docstrings, with constants. Rates are
seconds an edge, or a node, on two cores. ``python -m benchmarks.estimates`` compares them with measurements;
docs/estimate.md has the results.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from partition_ops.artifacts.parhip import neighbour_bytes
from partition_ops.chunked.metadata import Feature, GraphMetadata
from partition_ops.storage import Store

MIB = 1 << 20
PYTHON = 45 * MIB  # the process itself
READERS = 100 * MIB  # pyarrow and numpy
COMPILED = 75 * MIB  # numba, and what it has compiled
S3 = 30 * MIB  # boto3
LIBRARIES = 100 * MIB  # of the above, pages of files
PARSED = 80 * MIB  # a block of edges: its text and its columns
PARSED_TIMES = 5  # ... or so many times its file, if that is small
NARROW = 2**31  # IDs that fit in 32 bits
# bytes in memory for each byte in a file; a guess for text and compressed columns
DECODED = {"numpy": 1.0, "parquet": 1.1, "csv": 1.0}
SMALL = 128 << 10  # a report, with its page
LEAST_SECONDS = 4.0  # of work in a process, which takes about one to start


@dataclass(frozen=True, kw_only=True)
class TaskEstimate:
    """Memory of the largest of some tasks of a stage, or MPI ranks of one, each on a worker of its own."""

    name: str  # what they do, such as ``scatter``
    number: int  # how many there are
    memory: int  # peak resident set of the largest in bytes; files that it maps count
    mapped: int = 0  # the part of `memory` that is pages of files

    @property
    def held(self) -> int:
        """Bytes of memory without which the task is killed."""
        return self.memory - self.mapped


@dataclass(frozen=True, kw_only=True)
class StageEstimate:
    """Memory and disk that one stage takes, in bytes, and its seconds."""

    stage: str = ""  # its name; the cost of a stage leaves it out
    memory: int = 0  # peak resident set of a process that runs only this stage; files that it maps count
    # the part of `memory` that is pages of files; the system reclaims them instead of killing the process
    mapped: int = 0
    output: int = 0  # what it leaves in the output
    scratch: int = 0  # what it leaves in the output's ``scratch/`` until ``publish``
    temporary: int = 0  # peak size of its temporary files, below ``TMPDIR``
    # files below ``TMPDIR`` that it fetched from S3, kept until the process ends, and files on their way to
    # S3
    cache: int = 0
    # bytes of the work that it leaves for the time of the next stages, if these are in the same process
    beside: int = 0
    seconds: float = 0.0  # a rough time; depends on the machine
    note: str | None = None  # what the figures assume, or None
    warnings: tuple[str, ...] = ()  # what may happen on the machine, in whole clauses
    remedies: tuple[str, ...] = ()  # options that need less memory, if there is too little; whole sentences
    # the tasks of the stage, if several workers share it; `memory` is that of the largest. Empty if one task
    # does it all
    tasks: tuple[TaskEstimate, ...] = ()
    spread_by: str = ""  # options of the job with which these tasks exist; ``""`` if it has them anyway

    @property
    def held(self) -> int:
        """Bytes of memory without which the process is killed."""
        return self.memory - self.mapped


@dataclass(frozen=True)
class Sizes:
    """Sizes of a graph, from its metadata and the sizes of its files, and of the assignment of its nodes."""

    metadata: GraphMetadata  # the graph's metadata
    file_bytes: dict[str, int]  # bytes by key; 0 for a file that is missing
    missing: tuple[str, ...] = ()  # keys of those that are missing
    num_parts: int = 1  # number of partitions
    unequal: bool = False  # whether the user has given the share of each partition
    trainers: int = 1  # trainers of a partition
    # whether nodes are assigned without a look at the edges, so that most of these are cut
    cut_random: bool = False

    @classmethod
    def of(cls, metadata: GraphMetadata, source: Store, **assignment: Any) -> Sizes:
        """Look up the sizes of all files, none of which is read; the attributes of the assignment follow."""
        keys = metadata.files()
        found = dict(zip(keys, source.stat_all(keys), strict=True))
        sizes = {key: 0 if entry is None else entry.size for key, entry in found.items()}
        missing = tuple(key for key, entry in found.items() if entry is None)
        return cls(metadata, sizes, missing, **assignment)

    @cached_property
    def nodes(self) -> int:
        return sum(self.metadata.num_nodes)

    @cached_property
    def edges(self) -> int:
        return sum(self.metadata.num_edges)

    @property
    def half_edges(self) -> int:
        """Half-edges of the symmetric graph if it has no duplicates and no self-loops."""
        return 2 * self.edges

    @property
    def id_bytes(self) -> int:
        """Bytes of a homogeneous node ID in memory."""
        return 4 if self.nodes <= NARROW else 8

    @property
    def prepared_bytes(self) -> int:
        """Bytes of the graph that ``prepare`` writes."""
        return 8 * self.nodes + neighbour_bytes(self.nodes, self.edges) * self.half_edges

    @property
    def bucket_id_bytes(self) -> int:
        """Bytes of an ID between scatter and gather."""
        return 4 if max(self.nodes, *self.metadata.num_edges, 0) < NARROW else 8

    @property
    def input_bytes(self) -> int:
        """Bytes of all files."""
        return sum(self.file_bytes.values())

    @cached_property
    def edge_file_bytes(self) -> list[int]:
        """Bytes of each file of edges."""
        return [self.file_bytes[key] for data in self.metadata.edges for key in data.files]

    @property
    def block(self) -> int:
        """Bytes of the block of edges that a core reads."""
        return min(PARSED, PARSED_TIMES * max(self.edge_file_bytes, default=0))

    def largest_chunk(self) -> int:
        """Return the edges of the largest chunk; if only totals are known, chunks count as equal."""
        chunks = zip(
            self.metadata.num_edges_per_chunk, self.metadata.num_edges, self.metadata.edges, strict=True
        )
        return max(
            (max(counts or (-(-total // max(len(data.files), 1)),)) for counts, total, data in chunks),
            default=0,
        )

    def decoded(self, feature: Feature) -> int:
        """Return the bytes of a feature as an array; exact for ``.npy``."""
        held = sum(self.file_bytes[key] for key in feature.data.files)
        return int(held * DECODED[feature.data.format.name])

    @cached_property
    def features(self) -> tuple[Feature, ...]:
        return *self.metadata.node_features, *self.metadata.edge_features

    @cached_property
    def feature_bytes(self) -> int:
        """Bytes of all features as arrays."""
        return sum(map(self.decoded, self.features))

    @cached_property
    def mapped_feature_bytes(self) -> int:
        """Bytes of features in files that are memory-mapped."""
        return sum(self.decoded(one) for one in self.features if one.data.format.name == "numpy")

    def largest_feature_file(self, form: str) -> int:
        """Return the bytes of the largest feature file of a format: ``numpy``, ``parquet`` or ``csv``."""
        files = (key for one in self.features if one.data.format.name == form for key in one.data.files)
        return max((self.file_bytes[key] for key in files), default=0)

    @property
    def largest_decoded_file(self) -> int:
        """Bytes in memory of the largest feature file in CSV, which can be neither mapped nor streamed."""
        return 3 * self.largest_feature_file("csv")  # its text, columns, and an array


@dataclass(frozen=True)
class Machine:
    """The machine that a stage runs on, and where its input and output are."""

    memory: int  # bytes; some stages plan with a share of them
    cores: int  # processors
    remote_source: bool = False  # whether the graph is on S3
    remote_destination: bool = False  # whether the output is on S3
    # so many machines of this kind share a stage if it can be split; 0 if one process does the job
    workers: int = 0

    @property
    def base(self) -> int:
        """Bytes that a process takes before any work."""
        remote = S3 if self.remote_source or self.remote_destination else 0
        return PYTHON + READERS + COMPILED + remote

    def fetched(self, size: int) -> int:
        """Return the bytes of a local copy of a part of the input."""
        return size if self.remote_source else 0

    def fetched_back(self, size: int) -> int:
        """Return the bytes of a local copy of a part of the output, or of files on their way there."""
        return size if self.remote_destination else 0


def shares(work_seconds: float, tasks: int) -> list[list[int]]:
    """Return the numbers of the tasks that share a process, if each process is to have enough work.

    Args:
        work_seconds: Seconds of all tasks of a kind, without the start of processes.
        tasks: Number of tasks.
    """
    count = max(1, min(tasks, int(work_seconds / LEAST_SECONDS)))
    return [list(range(n * tasks // count, (n + 1) * tasks // count)) for n in range(count)]
