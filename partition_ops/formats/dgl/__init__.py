"""The files that DGL's distributed training loads."""

FORMAT = "partition_ops.formats.dgl.plugin:DGL"
