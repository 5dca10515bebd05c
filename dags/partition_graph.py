"""Partition a graph on object storage for distributed training with DGL.

The input is a graph in DGL's chunked format. The run writes partitions that `dgl.distributed` loads,
ID maps, a quality report and a manifest.

If the input is a `graph.yaml` that names tables, **ingest** makes a graph of them first.

1. **validate** checks the input. The run stops if the graph has errors, or if memory or disk are estimated to
   be too small. The log names file, type, position and value. If the param `validation_tasks` is above 1,
   mapped tasks read the graph before it.
2. **schema** writes the ID range of every type.
3. **prepare** writes the graph in the format of the partitioning engine. If the param `prepare_tasks` is
   above 1, mapped tasks split and sort its edges before it.
4. **partition** assigns nodes to partitions.
5. **convert** plans the conversion, scatters the edges and gathers the partitions in mapped tasks, and writes
   the partition config.
6. **idmap** and **quality** write the ID maps and the report. If the param `probe` is true, **probe**
   samples mini-batches as the trainers would, before both.
7. **gate** fails if the partitions are worse than allowed, or waits for approval.
8. **publish** writes the manifest, then `latest.json`, and updates the asset `partitioned_graphs`.
9. **retain** removes older runs, if the param `keep` has a number.

After validation, only one run at a time works on a graph. **lock** waits for other runs, and **revalidate**
checks the graph again if it has changed meanwhile. **release** releases the lock and removes scratch files,
even if a task has failed; it fails if nothing was published.

Artifacts are in `<output>/<graph>/runs/<run>/`. The button **Artifacts** of a task shows its artifacts,
and the button **Data Docs** of `validate` shows expectations and findings. A cleared task skips work that
is already done.
"""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, Param, TaskGroup
from graph_partitioning.alerts import tell_failure
from graph_partitioning.operators.cache import CacheRowsOperator
from graph_partitioning.operators.convert import (
    GatherPartitionOperator,
    ListPartitionsOperator,
    PlanConversionOperator,
    ScatterEdgesOperator,
    WritePartitionConfigOperator,
)
from graph_partitioning.operators.gate import QualityGateOperator
from graph_partitioning.operators.idmap import ExportIdMapsOperator
from graph_partitioning.operators.ingest import IngestTablesOperator
from graph_partitioning.operators.lock import (
    LockGraphOperator,
    ReleaseGraphOperator,
    RemoveScratchOperator,
)
from graph_partitioning.operators.params import check_params
from graph_partitioning.operators.partition import PartitionNodesOperator
from graph_partitioning.operators.prepare import (
    GatherNeighboursOperator,
    PlanPreparationOperator,
    PrepareGraphOperator,
    ScatterHalfEdgesOperator,
)
from graph_partitioning.operators.probe import ProbePartitionsOperator
from graph_partitioning.operators.publish import PublishRunOperator
from graph_partitioning.operators.quality import ReportQualityOperator
from graph_partitioning.operators.retain import RetainRunsOperator
from graph_partitioning.operators.run_stage import RunStageOperator
from graph_partitioning.operators.schema import WriteSchemaOperator
from graph_partitioning.operators.validate import (
    GatherValidationOperator,
    PlanValidationOperator,
    RevalidateGraphOperator,
    ScatterValidationOperator,
    ValidateGraphOperator,
)
from graph_partitioning.options import (
    Alerting,
    Approval,
    Retention,
    form,
    planned_templates,
    templates,
)
from graph_partitioning.pods import pod

from partition_ops.artifacts.stage import around_alone, job_stages, other_stages
from partition_ops.jobs.options import RunConfig
from partition_ops.stages.cache.options import CacheConfig
from partition_ops.stages.convert.options import ConvertConfig
from partition_ops.stages.idmap.options import IdMapConfig
from partition_ops.stages.ingest.options import IngestConfig
from partition_ops.stages.partition.options import PartitionConfig, PreviousOptions
from partition_ops.stages.prepare.options import PrepareTasks
from partition_ops.stages.publish.options import Gate, Replacement
from partition_ops.stages.validate.options import ExpectationSuites, ValidateConfig
from partition_ops.traffic.options import SamplingOptions

URIS = {  # defaults of the form from the environment
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
    "reverse_edges": "{{ params.reverse_edges }}",
}
OPTIONS = templates(ConvertConfig)  # all tasks of convert have the same
CHECKS = templates(ValidateConfig)
PREPARATION = templates(PrepareTasks)
VALIDATION = templates(ValidateConfig, ExpectationSuites, PreviousOptions, Replacement)
AFTER_SETUP: dict[str, Any] = {"trigger_rule": "all_success"}  # Airflow rejects others

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
    on_failure_callback=tell_failure,
    tags=["dgl", "graph", "partitioning"],
    default_args={
        "retries": 3,
        "retry_delay": timedelta(seconds=10),
        "retry_exponential_backoff": 2,
        "max_retry_delay": timedelta(minutes=5),
        "trigger_rule": "none_failed",  # optional stages and mapped tasks may be skipped
        **GRAPH,
    },
) as dag:
    ingest = IngestTablesOperator(
        task_id="ingest",
        pre_execute=check_params,
        **templates(IngestConfig, PreviousOptions, Replacement),
        **pod("ingest"),
    )
    checks: dict[str, Any] = {
        **VALIDATION,
        "planned": planned_templates(),
        "ignore_estimate": "{{ params.ignore_estimate }}",
    }
    with TaskGroup("validation", tooltip="Read the graph in several tasks"):
        to_read = PlanValidationOperator(task_id="plan", **checks)
        read = ScatterValidationOperator.partial(
            task_id="scatter", map_index_template="{{ task.label }}", **GRAPH, **CHECKS, **pod("validate")
        ).expand(group=to_read.output)
        searched = GatherValidationOperator.partial(
            task_id="gather", map_index_template="{{ task.label }}", **GRAPH, **CHECKS, **pod("validate")
        ).expand(range=to_read.output)
    validate = ValidateGraphOperator(task_id="validate", **checks, **pod("validate"))
    lock = LockGraphOperator(task_id="lock").as_setup()
    revalidate = RevalidateGraphOperator(
        task_id="revalidate", **VALIDATION, **templates(IngestConfig), **AFTER_SETUP, **pod("validate")
    )
    schema = WriteSchemaOperator(task_id="schema")
    with TaskGroup("preparation", tooltip="Split and sort the edges in several tasks"):
        to_prepare = PlanPreparationOperator(task_id="plan", **PREPARATION)
        split = ScatterHalfEdgesOperator.partial(
            task_id="scatter", map_index_template="{{ task.label }}", **GRAPH, **PREPARATION, **pod("prepare")
        ).expand(group=to_prepare.output)
        sorted_ranges = GatherNeighboursOperator.partial(
            task_id="gather", map_index_template="{{ task.label }}", **GRAPH, **PREPARATION, **pod("prepare")
        ).expand(range=to_prepare.output)
    prepare = PrepareGraphOperator(task_id="prepare", **PREPARATION, **pod("prepare"))
    partition = PartitionNodesOperator(
        task_id="partition",
        **templates(PartitionConfig, PreviousOptions),
        **pod("partition"),
    )

    with TaskGroup("convert", tooltip="Build the partitions") as convert:
        # setups: if a gather is cleared, they run again and write its scratch files
        plan = PlanConversionOperator(task_id="plan", **OPTIONS).as_setup()
        partitions = ListPartitionsOperator(task_id="partitions", **OPTIONS, **AFTER_SETUP)
        # Airflow gives mapped tasks the arguments of BaseOperator from default_args, and no others
        scatter = ScatterEdgesOperator.partial(
            task_id="scatter",
            map_index_template="{{ task.label }}",
            **GRAPH,
            **OPTIONS,
            **AFTER_SETUP,
            **pod("convert"),
        ).expand(group=plan.output)
        scatter.as_setup()
        gather = GatherPartitionOperator.partial(
            task_id="gather",
            map_index_template="{{ task.label }}",
            **GRAPH,
            **OPTIONS,
            **AFTER_SETUP,
            **pod("convert"),
        ).expand(part=partitions.output)
        plan >> partitions
        remove_scratch = RemoveScratchOperator(task_id="remove_scratch").as_teardown(
            setups=[plan, scatter]  # type: ignore[list-item]  # Airflow takes mapped tasks too
        )
        scatter >> gather >> WritePartitionConfigOperator(task_id="config", **OPTIONS) >> remove_scratch

    idmap = ExportIdMapsOperator(task_id="idmap", **templates(IdMapConfig), **pod("idmap"))
    probe = ProbePartitionsOperator(
        task_id="probe", enabled="{{ params.probe }}", **templates(SamplingOptions), **pod("probe")
    )
    cache = CacheRowsOperator(
        task_id="cache",
        enabled="{{ params.cache_share != 0 }}",
        **templates(CacheConfig),
        **pod("cache"),
    )
    quality = ReportQualityOperator(task_id="quality", **templates(SamplingOptions), **pod("quality"))
    gate = QualityGateOperator(task_id="gate", **templates(Gate, Approval, Alerting))
    publish = PublishRunOperator(task_id="publish")
    retain = RetainRunsOperator(task_id="retain", **templates(Retention))
    release = ReleaseGraphOperator(task_id="release").as_teardown(setups=lock, on_failure_fail_dagrun=True)

    (
        ingest
        >> to_read
        >> read
        >> searched
        >> validate
        >> lock
        >> revalidate
        >> schema
        >> to_prepare
        >> split
        >> sorted_ranges
        >> prepare
        >> partition
        >> convert
        >> [cache, idmap, quality]
    )
    quality >> gate
    [cache, idmap, gate] >> publish >> retain >> release

    nodes = dag.task_group.children  # tasks and groups by name
    named = {getattr(task, "stage", "") for task in dag.tasks}
    for stage in job_stages():
        if stage.name in named:
            continue
        options = templates(stage.config, PreviousOptions, ExpectationSuites)
        if stage not in other_stages():  # a built-in one may have options that no job has
            options = {name: text for name, text in options.items() if name in dag.params}
        switches = {} if stage.optional in options else templates(RunConfig)
        nodes[stage.name] = RunStageOperator(
            task_id=stage.name,
            stage=stage.name,
            stage_options=options,
            enabled=switches.get(stage.optional, True),
            **pod(stage.name),
        )
        revalidate >> nodes[stage.name] >> publish
        for name in stage.after:
            nodes[name] >> nodes[stage.name]
    first = {**nodes, "prepare": to_prepare}  # tasks that read the graph come before some stages
    for before, alone, later in around_alone([one for one in job_stages() if one.name != "validate"]):
        [nodes[name] for name in before] >> first[alone]
        nodes[alone] >> [first[name] for name in later]
