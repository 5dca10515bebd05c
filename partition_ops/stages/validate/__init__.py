"""Stage ``validate``: everything that would make a later stage fail, or worse, quietly wrong."""

from partition_ops.artifacts.stage import Stage
from partition_ops.stages.validate.options import ExpectationSuites, ValidateConfig

STAGE = Stage(
    name="validate",
    config=ValidateConfig,
    options=(ExpectationSuites,),
    run="partition_ops.stages.validate.validate:validate_graph",
    takes=("expectations", "kept"),
    after=("ingest",),
    folders=("validation",),
    cost="partition_ops.stages.validate.cost:cost",
)
