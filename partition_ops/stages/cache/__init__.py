"""Stage ``cache``: with each partition, the rows of other partitions that its trainer reads most."""

from partition_ops.artifacts.stage import Stage

STAGE = Stage(
    name="cache",
    summary="store with each partition the remote rows that its trainer reads most",
    description="""\
Write the features of the nodes of other partitions that the trainer of each partition is expected to read
most, up to a share of its own rows, below cache/ of --output. 'convert' must have been done there.""",
    config="partition_ops.stages.cache.options:CacheConfig",
    run="partition_ops.stages.cache.cache:cache_rows",
    after=("convert",),
    optional="cache_share",
    folders=("cache",),
    cost="partition_ops.stages.cache.cost:cost",
)
