"""Stage ``partition``: the assignment of every node to a partition."""

from partition_ops.artifacts.stage import Stage

STAGE = Stage(
    name="partition",
    summary="assign every node to a partition",
    description="""\
Write the assignment to assignment/ below --output, in DGL's text format. 'prepare' must have been done there,
unless the engine does not read edges.""",
    config="partition_ops.stages.partition.options:PartitionConfig",
    options=("partition_ops.stages.partition.options:PreviousOptions",),
    run="partition_ops.stages.partition.partition:partition_nodes",
    takes=("previous", "beside", "half_edges"),
    after=("schema", "prepare"),
    folders=("assignment",),
    cost="partition_ops.stages.partition.cost:cost",
    remedy="Use another --engine, such as random, or two-level with --mpi-ranks over several machines.",
)
