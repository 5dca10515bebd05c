"""Stage ``schema``: homogeneous ID ranges by type, as DGL's convert_partition.py reads them."""

from partition_ops.artifacts.stage import Stage

STAGE = Stage(
    name="schema",
    summary="write the ID ranges of every type",
    config="partition_ops.stages.schema.options:SchemaConfig",
    run="partition_ops.stages.schema.schema:write_schema",
    after=("validate",),
    folders=("schema",),
    cost="partition_ops.stages.schema.cost:cost",
    pod=False,
)
