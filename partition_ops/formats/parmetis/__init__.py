"""ParMETIS's text files, written and read back."""

# name and class of the format of converted partitions; it is not among the formats of ``convert``
LAYOUT = ("dgl-at-root", "partition_ops.formats.dgl.dgl_format:DGLAtRoot")
