"""A job to estimate: the size of its graph, its options and its machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from partition_ops.chunked.metadata import Feature, GraphMetadata
from partition_ops.jobs.options import RunConfig
from partition_ops.stages.prepare.options import neighbour_bytes, range_shift
from partition_ops.storage import Store
from partition_ops.system.memory import planned_memory

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


@dataclass(frozen=True)
class Sizes:
    """Sizes of a graph, from its metadata and the sizes of its files.

    Attributes:
        metadata: The graph's metadata.
        file_bytes: Bytes by key; 0 for a file that is missing.
        missing: Keys of those that are missing.
    """

    metadata: GraphMetadata
    file_bytes: dict[str, int]
    missing: tuple[str, ...] = ()

    @classmethod
    def of(cls, metadata: GraphMetadata, source: Store) -> Sizes:
        """Look up the sizes of all files; no file is read."""
        keys = metadata.files()
        found = dict(zip(keys, source.stat_all(keys), strict=True))
        sizes = {key: 0 if entry is None else entry.size for key, entry in found.items()}
        return cls(metadata, sizes, tuple(key for key, entry in found.items() if entry is None))

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
    def edge_bytes(self) -> int:
        """Bytes of the edge files."""
        return sum(self.file_bytes[key] for data in self.metadata.edges for key in data.files)

    @property
    def column_bytes(self) -> int:
        """Bytes of the columns of edge files that a whole job keeps from its first stage on."""
        return (8 if max(self.metadata.num_nodes, default=0) <= NARROW else 16) * self.edges

    @property
    def largest_edge_file(self) -> int:
        return max((self.file_bytes[key] for data in self.metadata.edges for key in data.files), default=0)

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
    def node_feature_bytes(self) -> int:
        return sum(self.decoded(feature) for feature in self.metadata.node_features)

    @cached_property
    def edge_feature_bytes(self) -> int:
        return sum(self.decoded(feature) for feature in self.metadata.edge_features)

    @cached_property
    def mapped_feature_bytes(self) -> int:
        """Bytes of features in files that are memory-mapped."""
        features = (*self.metadata.node_features, *self.metadata.edge_features)
        return sum(self.decoded(one) for one in features if one.data.format.name == "numpy")

    @cached_property
    def largest_mapped_file(self) -> int:
        """Bytes of the largest feature file that is memory-mapped."""
        features = (*self.metadata.node_features, *self.metadata.edge_features)
        files = [key for one in features if one.data.format.name == "numpy" for key in one.data.files]
        return max((self.file_bytes[key] for key in files), default=0)

    @cached_property
    def largest_decoded_file(self) -> int:
        """Bytes in memory of the largest feature file in CSV, which can be neither mapped nor streamed."""
        features = (*self.metadata.node_features, *self.metadata.edge_features)
        files = [key for one in features if one.data.format.name == "csv" for key in one.data.files]
        return 3 * max((self.file_bytes[key] for key in files), default=0)  # its text, columns, and an array

    def pair_edges(self) -> list[int]:
        """Return the edges of each pair of node types, most first; validation finds duplicates by pair."""
        groups: dict[frozenset[str], int] = {}
        for edge_type, count in zip(self.metadata.edge_types, self.metadata.num_edges, strict=True):
            ends = frozenset((edge_type.src, edge_type.dst))
            groups[ends] = groups.get(ends, 0) + count
        return sorted(groups.values(), reverse=True)

    def range_half_edges(self) -> list[int]:
        """Return the half-edges of each range of nodes that ``prepare`` sorts, most first.

        All nodes of a type count as equal; types differ by their number of edges a node.
        """
        metadata = self.metadata
        ends = dict.fromkeys(metadata.node_types, 0)
        for edge_type, count in zip(metadata.edge_types, metadata.num_edges, strict=True):
            ends[edge_type.src] += count
            ends[edge_type.dst] += count
        width = 1 << range_shift(self.nodes)
        ranges = [0.0] * (self.nodes // width + 1)
        for name, begin, nodes in zip(
            metadata.node_types, metadata.node_offsets, metadata.num_nodes, strict=False
        ):
            density, at, end = ends[name] / max(nodes, 1), begin, begin + nodes
            while at < end:
                upto = min(end, (at // width + 1) * width)
                ranges[at // width] += density * (upto - at)
                at = upto
        return sorted(map(int, ranges), reverse=True)


@dataclass(frozen=True)
class Job:
    """A job on a machine, as the formulas see it.

    Attributes:
        sizes: Of the graph.
        config: Options.
        limit: Bytes of memory of the machine; some stages take a share of it.
        cores: Processors.
        remote_source: Whether the graph is on S3.
        remote_destination: Whether the output is on S3.
    """

    sizes: Sizes
    config: RunConfig
    limit: int
    cores: int
    remote_source: bool
    remote_destination: bool

    @property
    def base(self) -> int:
        """Bytes that a process takes before any work."""
        remote = S3 if self.remote_source or self.remote_destination else 0
        return PYTHON + READERS + COMPILED + remote

    @property
    def block(self) -> int:
        """Bytes of the block of edges that a core reads."""
        return min(PARSED, PARSED_TIMES * self.sizes.largest_edge_file)

    @property
    def parts(self) -> int:
        return self.config.num_parts

    def planned(self, share: float) -> int:
        """Return the bytes that a stage plans with."""
        return planned_memory(self.config.memory, share, self.limit)

    def fetched(self, size: int) -> int:
        """Return the bytes of a local copy of a part of the input."""
        return size if self.remote_source else 0

    def fetched_back(self, size: int) -> int:
        """Return the bytes of a local copy of a part of the output, or of files on their way there."""
        return size if self.remote_destination else 0


def largest(values: Sequence[int], count: int) -> int:
    """Return the sum of the first ``count`` of values that are sorted, largest first."""
    return sum(values[:count])
