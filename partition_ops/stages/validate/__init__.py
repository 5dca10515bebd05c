"""Stage ``validate``: everything that would make a later stage fail, or worse, quietly wrong."""

from partition_ops.artifacts.stage import Stage

STAGE = Stage(
    name="validate",
    summary="check a graph before partitioning it",
    config="partition_ops.stages.validate.options:ValidateConfig",
    options=("partition_ops.stages.validate.options:ExpectationSuites",),
    run="partition_ops.stages.validate.validate:validate_graph",
    takes=("expectations", "kept"),
    after=("ingest",),
    folders=("validation",),
    cost="partition_ops.stages.validate.cost:cost",
)
