"""The files that PyG's distributed training loads."""

FORMAT = "partition_ops.formats.pyg.pyg_format:PyG"
