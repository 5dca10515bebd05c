"""What scatter tells gather."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from partition_ops import artifacts
from partition_ops.graph.metadata import GraphMetadata
from partition_ops.storage import Store


def read_edge_counts(destination: Store, metadata: GraphMetadata) -> npt.NDArray[np.int64]:
    """(edge types, partitions) int64, the number of edges of each type that each partition owns.

    Raises:
        InvalidInputError: The edges have not been scattered.
    """
    counts = destination.read_json(artifacts.BUCKET_COUNTS)["edges"]
    return np.array([counts[str(edge_type)] for edge_type in metadata.edge_types], np.int64)
