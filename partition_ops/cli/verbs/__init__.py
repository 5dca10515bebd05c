"""The verbs of the command line: each module has a `Verb` named ``VERB``; other stages have a generic one."""

from partition_ops.artifacts.stage import all_stages
from partition_ops.cli.verbs import (
    changes,
    compile,
    convert,
    convert_partition,
    dags,
    estimate,
    fetch,
    idmap,
    ingest,
    pm_dglpart,
    probe,
    retain,
    run,
    schema,
    validate,
    verify,
)
from partition_ops.cli.verbs.stage_verbs import stage_verb

OWN = {module.VERB.name: module.VERB for module in (ingest, validate, schema, convert, probe, idmap)}
VERBS = (
    run.VERB,
    estimate.VERB,
    *(OWN.get(stage.name) or stage_verb(stage) for stage in all_stages()),
    verify.VERB,
    changes.VERB,
    retain.VERB,
    fetch.VERB,
    compile.VERB,
    dags.VERB,
    dags.EXAMPLES,
    pm_dglpart.VERB,
    convert_partition.VERB,
)
