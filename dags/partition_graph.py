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
from typing import Any

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
from graph_partitioning.pods import pod
from graph_partitioning.settings import NUM_PARTS

from partition_ops.stages.partition.engines import engine_names
from partition_ops.stages.validate.check import ACTIONS, Check
from partition_ops.stages.validate.checks import CHECKS, choices


def uri_param(variable: str, **options: Any) -> Param:
    """A required URI; an environment variable may give the form a first value."""
    value = os.environ.get(variable)
    default = {"default": value} if value else {}
    return Param(**default, type="string", minLength=1, **options)


def on_findings(check: Check) -> Param:
    """What to do about the findings of a check."""
    section = {} if check.severity == "error" else {"section": "More"}
    return Param(
        check.actions[0],
        type="string",
        enum=list(check.actions),
        title=check.form_title,
        description=". ".join(f"{action}: {ACTIONS[action]}" for action in check.actions),
        **section,
    )


# The form shows what has no section at once, and the others when they are unfolded.
PARAMS = {
    "input_uri": uri_param(
        "GRAPH_PARTITIONING_INPUT_URI",
        title="Input graph",
        description="Folder with the graph's metadata.json: s3://bucket/prefix, or a path on the workers.",
    ),
    "output_uri": uri_param(
        "GRAPH_PARTITIONING_OUTPUT_URI",
        title="Output root",
        description="The run writes to <output root>/<graph>/runs/<run>/.",
    ),
    "num_parts": Param(
        NUM_PARTS,
        type="integer",
        minimum=1,
        maximum=1024,  # of a mapped task, as Airflow comes: [core] max_map_length
        title="Number of partitions",
        description="One for each machine of the distributed training.",
    ),
    "engine": Param(
        "auto",
        type="string",
        enum=[*engine_names()],
        title="Engine",
        description="auto is two-level, fast and with few edges cut, or metis for graphs such as grids and"
        " roads; parmetis works over MPI, where it is installed; random is there to compare with.",
    ),
    "balance": Param(
        "node-types",
        type="string",
        enum=["node-types", "edges", "none"],
        title="Balance",
        description="What every partition gets the same share of: each node type; each type's nodes and"
        " their in-edges; or only nodes of any type.",
    ),
    **{f"on_{check}": on_findings(CHECKS[check]) for check in choices()},
    "expectations_uri": Param(
        None,
        type=["null", "string"],
        title="Expectations of your own",
        description="Folder with suites of Great Expectations: s3://bucket/prefix, or a path on the workers.",
        section="More",
    ),
    "graph_name": Param(
        None,
        type=["null", "string"],
        pattern="^[A-Za-z_][A-Za-z0-9_]*$",
        maxLength=200,
        title="Graph name",
        description="Empty: the name in metadata.json. Letters, digits and underscores.",
        section="More",
    ),
    "seed": Param(
        0,
        type="integer",
        minimum=0,
        maximum=2**31 - 1,
        title="Seed",
        description="The same seed gives the same partitions.",
        section="More",
    ),
    "num_hops": Param(
        1,
        type="integer",
        minimum=0,
        maximum=255,
        title="Hops of the halo",
        description="0 leaves out edges from other partitions; more than 1 adds the in-edges of halo nodes.",
        section="More",
    ),
    "graph_formats": Param(
        "coo",
        type="string",
        pattern="^(coo|csr|csc)(, *(coo|csr|csc))*$",
        title="Sparse formats",
        description="What graph.dgl holds: some of coo, csr and csc, with commas between them.",
        section="More",
    ),
    "balance_ntypes": Param(
        None,
        type=["null", "string"],
        title="Balance by a feature",
        description="A node feature of integers, such as train_mask: every partition gets the same share of"
        " the nodes with each value.",
        section="Balance",
    ),
    "tolerance": Param(
        None,
        type=["null", "number"],
        exclusiveMinimum=1,
        maximum=100,
        title="Tolerance",
        description="Largest weight of a partition over its share, such as 1.03. Empty: the engine's own.",
        section="Balance",
    ),
    "target_shares": Param(
        None,
        type=["null", "string"],
        pattern=r"^\s*[0-9.eE+-]+\s*(,\s*[0-9.eE+-]+\s*)*$",
        title="Shares of the partitions",
        description="For machines that are not equal, one number for each: 2,1,1. Empty: equal shares.",
        section="Balance",
    ),
    "objective": Param(
        "cut",
        type="string",
        enum=["cut", "vol"],
        title="Objective",
        description="cut: few edges between partitions; vol: little communication volume.",
        section="Balance",
    ),
    "num_trainers_per_machine": Param(
        1,
        type="integer",
        minimum=1,
        maximum=65536,
        title="Trainers on a machine",
        description="Every partition is made of so many smaller ones, one for each trainer.",
        section="Balance",
    ),
    "probe": Param(
        False,
        type="boolean",
        title="Probe the partitions",
        description="Sample mini-batches as the trainer of each partition would, for the quality report: what"
        " it fetches from the others.",
        section="More",
    ),
    "previous": Param(
        None,
        type=["null", "string"],
        title="Previous run",
        description="For a graph that has grown: old nodes stay where they were in this run. Its URI, that of"
        " the root of a graph's runs, or latest for the one published last. Empty: partition anew.",
        section="Growth",
    ),
    "migration_price": Param(
        1,
        type="integer",
        minimum=0,
        title="Price of migration",
        description="How many cut edges an old node must save to move.",
        section="Growth",
    ),
    "drift": Param(
        1.05,
        type="number",
        minimum=1,
        title="Drift",
        description="Partition anew when more than so many times the last full run's share of edges is cut.",
        section="Growth",
    ),
    "compare_full": Param(
        False,
        type="boolean",
        title="Compare with a full run",
        description="Also partition anew, only to report what that would give.",
        section="Growth",
    ),
    **{
        f"max_{name}": Param(
            None,
            type=["null", "number"],
            minimum=least,
            maximum=most,
            title=f"Largest {what}",
            description=f"More is not published{besides}. Empty: any.",
            section="Publishing",
        )
        for name, what, least, most, besides in (
            ("edge_cut", "share of edges cut", 0, 1, ""),
            ("imbalance", "imbalance of a node type", 1, 1024, ""),
            ("moved", "share of old nodes moved", 0, 1, "; without a previous run nothing has moved"),
        )
    },
    "approval": Param(
        False,
        type="boolean",
        title="Ask a person",
        description="What is worse than allowed waits for approval, instead of failing.",
        section="Publishing",
    ),
    "approval_hours": Param(
        24,
        type="number",
        exclusiveMinimum=0,
        title="Hours to wait for approval",
        section="Publishing",
    ),
    "keep": Param(
        None,
        type=["null", "integer"],
        minimum=1,
        title="Runs to keep",
        description="Older published runs of the graph are removed. Empty: all stay.",
        section="Publishing",
    ),
    "grace_days": Param(
        7,
        type="number",
        minimum=0,
        title="Days of grace",
        description="No run younger than that is removed.",
        section="Publishing",
    ),
    "ignore_estimate": Param(
        False,
        type="boolean",
        title="Ignore the estimate",
        description="Begin even if the worker is estimated to have too little memory or disk.",
        section="More",
    ),
    "mpi_ranks": Param(
        2,
        type="integer",
        minimum=1,
        maximum=4096,
        title="MPI ranks",
        description="Processes of the engine parmetis.",
        section="More",
    ),
    "hostfile": Param(
        None,
        type=["null", "string"],
        title="Hostfile",
        description="For the engine parmetis over several machines: path on the worker of OpenMPI's list of"
        " hosts.",
        section="More",
    ),
    "storage_conn_id": Param(
        "aws_default",
        type=["null", "string"],
        title="Storage connection",
        description="Airflow connection of type aws that reaches s3://. Empty: what boto3 finds itself.",
        section="More",
    ),
}
GRAPH = {
    "input_uri": "{{ params.input_uri }}",
    "output_uri": "{{ params.output_uri }}",
    "graph_name": "{{ params.graph_name or '' }}",
    "storage_conn_id": "{{ params.storage_conn_id or '' }}",
    "run_id": "{{ run_id }}",
}
HALO = {"num_hops": "{{ params.num_hops }}", "graph_formats": "{{ params.graph_formats }}"}
# what must fit the graph, and what the memory and disk that the job takes depend on
PLANNED = {
    **{name: f"{{{{ params.{name} }}}}" for name in ("num_parts", "engine", "balance", "objective")},
    "num_trainers_per_machine": "{{ params.num_trainers_per_machine }}",
    **{name: f"{{{{ params.{name} or '' }}}}" for name in ("balance_ntypes", "tolerance", "target_shares")},
    "probe": "{{ params.probe }}",
    **HALO,
}

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
        on_defect={check: f"{{{{ params.on_{check} }}}}" for check in choices()},
        expectations_uri="{{ params.expectations_uri or '' }}",
        planned=PLANNED,
        ignore_estimate="{{ params.ignore_estimate }}",
        previous="{{ params.previous or '' }}",
        **pod("validate"),
    )
    lock = LockGraphOperator(task_id="lock").as_setup()
    schema = WriteSchemaOperator(task_id="schema")
    prepare = PrepareGraphOperator(task_id="prepare", **pod("prepare"))
    partition = PartitionNodesOperator(
        task_id="partition",
        num_parts="{{ params.num_parts }}",
        engine="{{ params.engine }}",
        balance="{{ params.balance }}",
        seed="{{ params.seed }}",
        balance_ntypes="{{ params.balance_ntypes or '' }}",
        tolerance="{{ params.tolerance or '' }}",
        target_shares="{{ params.target_shares or '' }}",
        objective="{{ params.objective }}",
        num_trainers_per_machine="{{ params.num_trainers_per_machine }}",
        previous="{{ params.previous or '' }}",
        migration_price="{{ params.migration_price }}",
        drift="{{ params.drift }}",
        compare_full="{{ params.compare_full }}",
        mpi_ranks="{{ params.mpi_ranks }}",
        hostfile="{{ params.hostfile or '' }}",
        **pod("partition"),
    )

    with TaskGroup("convert", tooltip="Build the partitions") as convert:
        # setups: a gather that is cleared has them write its scratch files once more
        plan = PlanConversionOperator(task_id="plan", **HALO).as_setup()
        partitions = ListPartitionsOperator(task_id="partitions", **HALO)
        # Airflow hands default_args on to ordinary tasks only
        scatter = ScatterEdgesOperator.partial(
            task_id="scatter", map_index_template="group {{ task.group }}", **GRAPH, **HALO, **pod("convert")
        ).expand(group=plan.output)
        scatter.as_setup()
        gather = GatherPartitionOperator.partial(
            task_id="gather", map_index_template="part {{ task.part }}", **GRAPH, **HALO, **pod("convert")
        ).expand(part=partitions.output)
        plan >> partitions
        remove_scratch = RemoveScratchOperator(task_id="remove_scratch").as_teardown(setups=[plan, scatter])
        scatter >> gather >> WritePartitionConfigOperator(task_id="config", **HALO) >> remove_scratch

    idmap = ExportIdMapsOperator(task_id="idmap", **pod("idmap"))
    probe = ProbePartitionsOperator(task_id="probe", enabled="{{ params.probe }}", **pod("probe"))
    quality = ReportQualityOperator(task_id="quality", trigger_rule="none_failed", **pod("quality"))
    gate = QualityGateOperator(
        task_id="gate",
        **{name: f"{{{{ params.{name} }}}}" for name in ("approval", "approval_hours")},
        **{
            name: f"{{{{ '' if params.{name} is none else params.{name} }}}}"
            for name in ("max_edge_cut", "max_imbalance", "max_moved")
        },
    )
    publish = PublishRunOperator(task_id="publish")
    retain = RetainRunsOperator(
        task_id="retain", keep="{{ params.keep or '' }}", grace_days="{{ params.grace_days }}"
    )
    release = ReleaseGraphOperator(task_id="release").as_teardown(setups=lock)

    validate >> lock >> schema >> prepare >> partition >> convert >> [idmap, probe, quality]
    probe >> quality
    quality >> gate
    [idmap, gate] >> publish >> retain >> release
