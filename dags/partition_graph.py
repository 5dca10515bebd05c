"""Partition a graph on object storage for distributed training with DGL.

From a graph in DGL's chunked format to partitions that `dgl.distributed` loads, with tables from the
original to the new IDs, a quality report and a manifest.

1. **validate** the input: a bad graph stops here, and the log names file, type, position and value. So does
   a graph for which memory or disk are estimated not to suffice.
2. **schema**: the ID range of every type.
3. **prepare** the graph for the partitioning engine.
4. **partition** its nodes.
5. **convert**: plan, scatter the edges and gather the partitions in tasks of their own, write the partition
   config.
6. **idmap** and **quality**: the ID tables and the report; before it, where the param `probe` asks for
   that, **probe**: mini-batches as the trainers would sample them.
7. **gate**: what is worse than allowed fails here, or waits for a person.
8. **publish**: the manifest, then `latest.json`; the asset `partitioned_graphs` is updated.
9. **retain**: older runs are removed, where a number of runs to keep is given.

After validation one run at a time works on a graph: **lock** waits for the others, **release** gives the lock
back and removes scratch files, whatever happened.

Everything goes to `<output>/<graph>/runs/<run>/`. The button **Artifacts** of each task shows what it
wrote, the button **Data Docs** of `validate` what was expected of the graph and what was found. A task
that is cleared finds out itself what need not be done again.
"""

from __future__ import annotations

import os
from datetime import timedelta

from airflow.sdk import DAG, Param, TaskGroup
from graph_partitioning.operators.convert import (
    GatherPartitionOperator,
    ListPartitionsOperator,
    PlanConversionOperator,
    ScatterEdgesOperator,
    WritePartitionConfigOperator,
)
from graph_partitioning.operators.gate import QualityGateOperator
from graph_partitioning.operators.idmap import ExportIdMapsOperator
from graph_partitioning.operators.lock import (
    LockGraphOperator,
    ReleaseGraphOperator,
    RemoveScratchOperator,
)
from graph_partitioning.operators.partition import PartitionNodesOperator
from graph_partitioning.operators.prepare import PrepareGraphOperator
from graph_partitioning.operators.probe import ProbePartitionsOperator
from graph_partitioning.operators.publish import PublishRunOperator
from graph_partitioning.operators.quality import ReportQualityOperator
from graph_partitioning.operators.retain import RetainRunsOperator
from graph_partitioning.operators.schema import WriteSchemaOperator
from graph_partitioning.operators.validate import ValidateGraphOperator
from graph_partitioning.options import Approval, Retention, form, planned_templates, templates
from graph_partitioning.pods import pod

from partition_ops.stages.convert.options import ConvertConfig
from partition_ops.stages.partition.options import PartitionConfig, PreviousOptions
from partition_ops.stages.publish.options import Gate
from partition_ops.stages.validate.options import ExpectationSuites, ValidateConfig

URIS = {  # that the environment may give the form to begin with
    name: value
    for name in ("input_uri", "output_uri")
    if (value := os.environ.get(f"GRAPH_PARTITIONING_{name.upper()}"))
}
PARAMS = {name: Param(**keywords) for name, keywords in form(defaults=URIS).items()}
GRAPH = {
    "input_uri": "{{ params.input_uri }}",
    "output_uri": "{{ params.output_uri }}",
    "graph_name": "{{ params.graph_name or '' }}",
    "storage_conn_id": "{{ params.storage_conn_id or '' }}",
    "run_id": "{{ run_id }}",
}
OPTIONS = templates(ConvertConfig)  # all tasks of convert have the same

with DAG(
    dag_id="partition_graph",
    dag_display_name="Partition a graph",
    description="Validate, partition and convert a graph for DGL's distributed training",
    doc_md=__doc__,
    schedule=None,
    catchup=False,
    max_active_runs=4,
    max_active_tasks=8,
    params=PARAMS,
    tags=["dgl", "graph", "partitioning"],
    default_args={
        "retries": 3,
        "retry_delay": timedelta(seconds=10),
        "retry_exponential_backoff": 2,
        "max_retry_delay": timedelta(minutes=5),
        **GRAPH,
    },
) as dag:
    validate = ValidateGraphOperator(
        task_id="validate",
        **templates(ValidateConfig, ExpectationSuites, PreviousOptions),
        planned=planned_templates(),
        ignore_estimate="{{ params.ignore_estimate }}",
        **pod("validate"),
    )
    lock = LockGraphOperator(task_id="lock").as_setup()
    schema = WriteSchemaOperator(task_id="schema")
    prepare = PrepareGraphOperator(task_id="prepare", **pod("prepare"))
    partition = PartitionNodesOperator(
        task_id="partition",
        **templates(PartitionConfig, PreviousOptions),
        **pod("partition"),
    )

    with TaskGroup("convert", tooltip="Build the partitions") as convert:
        # setups: a gather that is cleared has them write its scratch files once more
        plan = PlanConversionOperator(task_id="plan", **OPTIONS).as_setup()
        partitions = ListPartitionsOperator(task_id="partitions", **OPTIONS)
        # Airflow hands default_args on to ordinary tasks only
        scatter = ScatterEdgesOperator.partial(
            task_id="scatter",
            map_index_template="group {{ task.group }}",
            **GRAPH,
            **OPTIONS,
            **pod("convert"),
        ).expand(group=plan.output)
        scatter.as_setup()
        gather = GatherPartitionOperator.partial(
            task_id="gather", map_index_template="part {{ task.part }}", **GRAPH, **OPTIONS, **pod("convert")
        ).expand(part=partitions.output)
        plan >> partitions
        remove_scratch = RemoveScratchOperator(task_id="remove_scratch").as_teardown(setups=[plan, scatter])
        scatter >> gather >> WritePartitionConfigOperator(task_id="config", **OPTIONS) >> remove_scratch

    idmap = ExportIdMapsOperator(task_id="idmap", **pod("idmap"))
    probe = ProbePartitionsOperator(task_id="probe", enabled="{{ params.probe }}", **pod("probe"))
    quality = ReportQualityOperator(task_id="quality", trigger_rule="none_failed", **pod("quality"))
    gate = QualityGateOperator(task_id="gate", **templates(Gate, Approval))
    publish = PublishRunOperator(task_id="publish")
    retain = RetainRunsOperator(task_id="retain", **templates(Retention))
    release = ReleaseGraphOperator(task_id="release").as_teardown(setups=lock)

    validate >> lock >> schema >> prepare >> partition >> convert >> [idmap, probe, quality]
    probe >> quality
    quality >> gate
    [idmap, gate] >> publish >> retain >> release
