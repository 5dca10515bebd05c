"""Stage ``convert``: from an assignment to the files that DGL's distributed training loads.

A shuffle: the *plan* makes groups of chunks, *scatter* reads each edge of a group once and puts it into
the bucket of its owner, *gather* builds one partition from its buckets, and at the end the partition config
is written.

`convert_parmetis` gets to the same files from the text that ParMETIS wrote.
"""

from partition_ops.formats.dgl.partition_config import write_partition_config
from partition_ops.formats.parmetis.convert import convert_parmetis
from partition_ops.stages.convert.convert import convert_graph
from partition_ops.stages.convert.gather import gather_partition
from partition_ops.stages.convert.plan import plan_conversion
from partition_ops.stages.convert.scatter import scatter_edges

__all__ = [
    "convert_graph",
    "convert_parmetis",
    "gather_partition",
    "plan_conversion",
    "scatter_edges",
    "write_partition_config",
]
