"""Stage ``schema``: homogeneous ID ranges by type, as DGL's convert_partition.py reads them."""

from partition_ops.artifacts.stage import Stage
from partition_ops.stages.schema.options import SchemaConfig

STAGE = Stage(
    name="schema",
    config=SchemaConfig,
    run="partition_ops.stages.schema.schema:write_schema",
    after=("validate",),
    folders=("schema",),
    cost="partition_ops.stages.schema.cost:cost",
    pod=False,
)
