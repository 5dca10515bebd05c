"""The files that GraphBolt, in DGL 2.1 and later, loads for distributed training."""

FORMAT = "partition_ops.formats.graphbolt.graphbolt_format:GraphBolt"
