"""The files that DGL's distributed training loads."""

FORMAT = "partition_ops.formats.dgl.dgl_format:DGL"
