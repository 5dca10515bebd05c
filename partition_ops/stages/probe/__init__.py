"""Stage ``probe``: sample mini-batches as trainers would, for the quality report."""

from partition_ops.artifacts.stage import Stage

STAGE = Stage(
    name="probe",
    summary="sample as trainers would, and measure what they fetch from other partitions",
    config="partition_ops.stages.probe.options:ProbeConfig",
    run="partition_ops.stages.probe.probe:probe_run",
    after=("convert",),
    optional="probe",
    folders=("quality",),
    cost="partition_ops.stages.probe.cost:cost",
    alone=True,
)
