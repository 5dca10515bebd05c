"""Stage ``validate``: everything that would make a later stage fail, or worse, quietly wrong."""

from partition_ops.artifacts import layout
from partition_ops.artifacts.stage import Stage, StageTask

STAGE = Stage(
    name="validate",
    summary="check a graph before partitioning it",
    config="partition_ops.stages.validate.options:ValidateConfig",
    options=("partition_ops.stages.validate.options:ExpectationSuites",),
    run="partition_ops.stages.validate.validate:validate_graph",
    takes=("expectations", "kept", "find_rows"),
    after=("ingest",),
    folders=("validation",),
    tasks=(
        StageTask(
            layout.VALIDATE_SCATTER,
            each="group",
            run="partition_ops.stages.validate.spread:run_alone",
            scratch=True,
            passing=True,
        ),
        StageTask(
            layout.VALIDATE_GATHER,
            each="range",
            run="partition_ops.stages.validate.spread:run_alone",
            scratch=True,
            passing=True,
        ),
        StageTask("validate", seconds="validate"),
    ),
    cost="partition_ops.stages.validate.cost:cost",
)
