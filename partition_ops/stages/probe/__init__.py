"""Stage ``probe``: sample mini-batches as trainers would, for the quality report."""

from partition_ops.artifacts.stage import Stage
from partition_ops.stages.probe.options import ProbeConfig

STAGE = Stage(
    name="probe",
    config=ProbeConfig,
    run="partition_ops.stages.probe.probe:probe_run",
    after=("convert",),
    optional="probe",
    folders=("quality",),
    cost="partition_ops.stages.probe.cost:cost",
    alone=True,
)
