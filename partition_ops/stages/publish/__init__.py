"""Stage ``publish``: the manifest, and then the pointer to the newest run."""

from partition_ops.artifacts.stage import Stage

STAGE = Stage(
    name="publish",
    summary="write the manifest of a finished output",
    description="""\
Write manifest.json below --output after every stage has been done there: the input, the options, the
versions, and size and SHA-256 of every artifact.""",
    config="partition_ops.stages.publish.options:PublishConfig",
    run="partition_ops.stages.publish.publish:publish_run",
    takes=("latest",),
    after=("schema", "idmap", "quality"),
    cost="partition_ops.stages.publish.cost:cost",
    pod=False,
)
