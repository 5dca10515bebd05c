"""Stage ``quality``: how good the partitioning is."""

from partition_ops.artifacts.stage import Stage, StageTask

STAGE = Stage(
    name="quality",
    summary="report edge cut, balance and replication",
    description="""\
Write quality/report.json, quality/history.json and quality/report.html below --output. 'convert' must have
been done there.""",
    config="partition_ops.stages.quality.options:QualityConfig",
    options=("partition_ops.stages.quality.options:EarlierReport",),
    run="partition_ops.stages.quality.quality:report_quality",
    takes=("previous",),
    after=("convert", "probe"),
    folders=("quality",),
    tasks=(StageTask("quality"),),  # it reports the seconds of the others
    cost="partition_ops.stages.quality.cost:cost",
)
