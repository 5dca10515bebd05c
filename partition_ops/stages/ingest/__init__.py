"""Stage ``ingest``: make a graph in the chunked format from tables with the user's own keys."""

from partition_ops.artifacts.stage import Stage

STAGE = Stage(
    name="ingest",
    summary="make a graph from tables with keys",
    config="partition_ops.stages.ingest.options:IngestConfig",
    folders=("ingest",),
    before_job=True,
)
