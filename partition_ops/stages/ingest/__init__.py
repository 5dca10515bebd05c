"""Stage ``ingest``: make a graph in the chunked format from tables with the user's own keys."""

from partition_ops.artifacts.stage import Stage
from partition_ops.stages.ingest.options import IngestConfig

STAGE = Stage(
    name="ingest",
    config=IngestConfig,
    folders=("ingest",),
    before_job=True,
)
