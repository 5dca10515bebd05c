"""The size of a graph, from its metadata and the sizes of its files."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from partition_ops.chunked.metadata import Feature, GraphMetadata
from partition_ops.storage import Store

NARROW = 2**31  # what IDs of 32 bits count
RANGE_BITS = 9  # ``prepare`` sorts so many ranges of nodes one by one, or half as many
# bytes in memory for each byte in a file; text and compressed columns may hold anything
DECODED = {"numpy": 1.0, "parquet": 1.1, "csv": 1.0}


@dataclass(frozen=True)
class Sizes:
    """What the formulas need to know of a graph.

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
        """Look up the sizes of all files; nothing is read."""
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
        """Half-edges of the symmetric graph if there are neither duplicates nor self-loops."""
        return 2 * self.edges

    @property
    def id_bytes(self) -> int:
        """Bytes of a homogeneous node ID in memory."""
        return 4 if self.nodes <= NARROW else 8

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
    def largest_edge_file(self) -> int:
        return max((self.file_bytes[key] for data in self.metadata.edges for key in data.files), default=0)

    def largest_chunk(self) -> int:
        """Edges of the largest chunk; where only totals are known, chunks count as equal."""
        chunks = zip(
            self.metadata.num_edges_per_chunk, self.metadata.num_edges, self.metadata.edges, strict=True
        )
        return max(
            (max(counts or (-(-total // max(len(data.files), 1)),)) for counts, total, data in chunks),
            default=0,
        )

    def decoded(self, feature: Feature) -> int:
        """Bytes of a feature as an array; exact for ``.npy``."""
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
        """Bytes of the features in files that are mapped."""
        features = (*self.metadata.node_features, *self.metadata.edge_features)
        return sum(self.decoded(one) for one in features if one.data.format.name == "numpy")

    @cached_property
    def largest_mapped_file(self) -> int:
        """Bytes of the largest feature file that is mapped."""
        features = (*self.metadata.node_features, *self.metadata.edge_features)
        files = [key for one in features if one.data.format.name == "numpy" for key in one.data.files]
        return max((self.file_bytes[key] for key in files), default=0)

    @cached_property
    def largest_decoded_file(self) -> int:
        """Bytes in memory of the largest feature file that cannot be mapped nor streamed: one of CSV."""
        features = (*self.metadata.node_features, *self.metadata.edge_features)
        files = [key for one in features if one.data.format.name == "csv" for key in one.data.files]
        return 3 * max((self.file_bytes[key] for key in files), default=0)  # its text, columns, and an array

    def pair_edges(self) -> list[int]:
        """Edges by pair of node types, most first: among those, validation looks for duplicates."""
        groups: dict[frozenset[str], int] = {}
        for edge_type, count in zip(self.metadata.edge_types, self.metadata.num_edges, strict=True):
            ends = frozenset((edge_type.src, edge_type.dst))
            groups[ends] = groups.get(ends, 0) + count
        return sorted(groups.values(), reverse=True)

    def range_half_edges(self) -> list[int]:
        """Half-edges of each range of nodes that ``prepare`` sorts, most first.

        The nodes of a type count as equal; that a type has many edges, as few fields of study have, counts.
        """
        metadata = self.metadata
        ends = dict.fromkeys(metadata.node_types, 0)
        for edge_type, count in zip(metadata.edge_types, metadata.num_edges, strict=True):
            ends[edge_type.src] += count
            ends[edge_type.dst] += count
        width = 1 << max(self.nodes.bit_length() - RANGE_BITS, 0)
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
