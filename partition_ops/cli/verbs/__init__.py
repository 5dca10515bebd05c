"""The verbs of the command line: each module has a `Verb` named ``VERB``, and `stage_verbs` has four."""

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
    stage_verbs,
    validate,
    verify,
)

VERBS = (
    run.VERB,
    estimate.VERB,
    validate.VERB,
    schema.VERB,
    stage_verbs.PREPARE,
    stage_verbs.PARTITION,
    convert.VERB,
    idmap.VERB,
    stage_verbs.QUALITY,
    stage_verbs.PUBLISH,
    verify.VERB,
    changes.VERB,
    retain.VERB,
    fetch.VERB,
    probe.VERB,
    pm_dglpart.VERB,
    convert_partition.VERB,
)
