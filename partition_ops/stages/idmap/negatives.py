"""Write the negatives of edge types with the new IDs of their ends, for trainers of every format."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq

from partition_ops.artifacts import layout
from partition_ops.artifacts.tasks import ArtifactWriter
from partition_ops.chunked.metadata import GraphMetadata
from partition_ops.chunked.names import MASKS
from partition_ops.chunked.negatives import read_negatives
from partition_ops.stages.idmap.carry_over import Numbering
from partition_ops.storage import Store

IDS = ("src_orig_id", "dst_orig_id", "src_type_new_id", "dst_type_new_id")
SCHEMA = pa.schema(
    [*((name, pa.int64()) for name in IDS), ("part_id", pa.int32()), *((name, pa.bool_()) for name in MASKS)]
)


def write_negatives(task: ArtifactWriter, source: Store, metadata: GraphMetadata) -> int:
    """Write ``idmap/negatives/<src:rel:dst>.parquet`` for every edge type that has negatives.

    Columns: ``src_orig_id`` and ``dst_orig_id`` (type-wise IDs of the input), ``src_type_new_id`` and
    ``dst_type_new_id`` (type-wise, counted over the partitions), ``part_id`` (the partition that has the
    destination, which would own the edge), and the masks ``train_mask``, ``val_mask``, ``test_mask``; in the
    order of the input.

    Args:
        task: Knows the run.
        source: Root of the input graph, whose files of negatives are read.
        metadata: Its metadata.

    Returns:
        The number of negatives.

    Raises:
        InvalidInputError: A file of negatives is damaged, or has an ID that no node has.

    Peak memory: 28 bytes a node of the graph.
    """
    if not metadata.negatives:
        return 0
    counts = dict(zip(metadata.node_types, metadata.num_nodes, strict=True))
    numbering, rows = Numbering.read(task.destination, counts), 0
    for edge_type in metadata.negatives:
        src_type, _, dst_type = edge_type.split(":")
        new_src, new_dst = (numbering.type_wise(name)[1] for name in (src_type, dst_type))
        parts = numbering.parts[dst_type]
        key = layout.negative_map(edge_type)
        with task.destination.create(key) as new, pq.ParquetWriter(new.path, SCHEMA) as writer:
            for block in read_negatives(source, metadata, edge_type):
                ids = (block.src, block.dst, new_src[block.src], new_dst[block.dst])
                masks = [block.masks[name] for name in MASKS]
                writer.write_table(pa.table([*ids, parts[block.dst], *masks], schema=SCHEMA))
                rows += len(block.src)
        task.wrote(new.get_artifact())
    return rows
