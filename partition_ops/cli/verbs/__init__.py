"""The list of the verbs: each module has a `Verb` named ``VERB``; stages without one have a generic one.

A module is imported when its verb is used, so that ``--help`` is quick.
"""

from functools import partial
from importlib.util import find_spec
from typing import cast

from partition_ops.artifacts.stage import Stage, all_stages, load, other_stages
from partition_ops.cli.verb import ListedVerb, Verb


def _verb(module: str, name: str = "VERB") -> Verb:
    return cast(Verb, load(f"{__name__}.{module}:{name}"))


def _verb_of_stage(stage: Stage) -> Verb:
    from partition_ops.cli.verbs.stage_verbs import stage_verb

    has_module = stage not in other_stages() and find_spec(f"{__name__}.{stage.name}")
    return _verb(stage.name) if has_module else stage_verb(stage)


VERBS = (
    ListedVerb("run", "the whole job: validate, partition, convert, map, report", partial(_verb, "run")),
    ListedVerb("estimate", "estimate memory, disk and time of the whole job", partial(_verb, "estimate")),
    *(ListedVerb(stage.name, stage.summary, partial(_verb_of_stage, stage)) for stage in all_stages()),
    ListedVerb(
        "verify", "check every invariant of a finished output against its input", partial(_verb, "verify")
    ),
    ListedVerb("changes", "list what has changed in a graph since a finished run", partial(_verb, "changes")),
    ListedVerb("retain", "remove older published runs of a graph", partial(_verb, "retain")),
    ListedVerb("copy", "copy a graph or any other folder, from or to S3", partial(_verb, "copy")),
    ListedVerb("fetch", "copy a partition to the machine that serves it", partial(_verb, "fetch")),
    ListedVerb(
        "compile",
        "compile the library for this processor, so that the first job does not have to",
        partial(_verb, "compile"),
    ),
    ListedVerb("dags", "write the DAGs of this package into a folder of Airflow", partial(_verb, "dags")),
    ListedVerb(
        "examples",
        "write examples into a folder: tables, a graph of this Python environment, training, a DAG",
        partial(_verb, "dags", "EXAMPLES"),
    ),
    ListedVerb("pm-dglpart", "partition ParMETIS's text files under mpirun", partial(_verb, "pm_dglpart")),
    ListedVerb(
        "convert-partition",
        "convert the output of ParMETIS to the files that DGL loads",
        partial(_verb, "convert_partition"),
    ),
)
