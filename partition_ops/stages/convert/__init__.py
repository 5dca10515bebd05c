"""Stage ``convert``: from an assignment to the files that DGL's distributed training loads.

A shuffle: the *plan* makes groups of chunks, *scatter* reads each edge of a group once and puts it into
the bucket of its owner, *gather* builds one partition from its buckets, and at the end the partition config
is written.

`convert_parmetis` gets to the same files from the text that ParMETIS wrote.
"""

from partition_ops.artifacts import layout
from partition_ops.artifacts.stage import Stage, StageTask

STAGE = Stage(
    name="convert",
    summary="write the files that DGL's distributed training loads",
    config="partition_ops.stages.convert.options:ConvertConfig",
    run="partition_ops.stages.convert.convert:convert_graph",
    takes=("report",),
    after=("partition",),
    folders=("convert", "partitions", "formats"),
    tasks=(
        StageTask(layout.PLAN_TASK, run="partition_ops.stages.convert.convert:plan_alone"),
        StageTask(
            layout.SCATTER_TASK,
            each="group",
            run="partition_ops.stages.convert.convert:scatter_alone",
            seconds="scatter",
            scratch=True,
        ),
        StageTask(
            layout.PART_TASK,
            each="part",
            run="partition_ops.stages.convert.convert:gather_alone",
            seconds="gather",
        ),
        StageTask(layout.CONFIG_TASK, run="partition_ops.stages.convert.convert:write_alone"),
    ),
    instead=layout.TEXT_TASK,
    cost="partition_ops.stages.convert.cost:cost",
    remedy="Make more partitions with --num-parts, or use a smaller halo.",
)
