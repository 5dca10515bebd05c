"""The folder that GraphStorm trains from: DGL's files, and its own beside them."""

FORMAT = "partition_ops.formats.graphstorm.graphstorm_format:GraphStorm"
