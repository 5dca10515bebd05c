"""The whole graph as a data set that GraphBolt, in DGL 2.1, loads on one machine."""

FORMAT = "partition_ops.formats.graphbolt_dataset.dataset_format:GraphBoltDataset"
