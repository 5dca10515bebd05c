"""Stage ``idmap``: where every node and edge of the input went, and rows put in its order or back."""

from partition_ops.artifacts.stage import Stage

STAGE = Stage(
    name="idmap",
    summary="export the ID maps, restore the original order",
    description="""\
Write idmap/nodes/<type>.parquet and idmap/edges/<src:rel:dst>.parquet below --output, with the columns
orig_id, new_id, type_new_id and part_id, sorted by new_id. 'convert' must have been done there. If the output
was finished already, run 'publish' again afterwards, because its manifest is removed.""",
    config="partition_ops.stages.idmap.options:IdMapConfig",
    run="partition_ops.stages.idmap.export:export_id_maps",
    after=("convert",),
    folders=("idmap", "partitions"),
    cost="partition_ops.stages.idmap.cost:cost",
)
