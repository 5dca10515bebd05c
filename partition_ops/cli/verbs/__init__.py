"""The verbs of the command line: each module has a `Verb` named ``VERB``, and `stages` has four."""

from partition_ops.cli.verbs import (
    changes,
    convert,
    convert_partition,
    estimate,
    fetch,
    idmap,
    pm_dglpart,
    probe,
    retain,
    run,
    schema,
    stages,
    validate,
    verify,
)

VERBS = (
    run.VERB,
    estimate.VERB,
    validate.VERB,
    schema.VERB,
    stages.PREPARE,
    stages.PARTITION,
    convert.VERB,
    idmap.VERB,
    stages.QUALITY,
    stages.PUBLISH,
    verify.VERB,
    changes.VERB,
    retain.VERB,
    fetch.VERB,
    probe.VERB,
    pm_dglpart.VERB,
    convert_partition.VERB,
)
