"""What each stage takes, but for ``convert``: the formulas of the stages' own docstrings, with constants.

Rates are seconds an edge, or a node, on two cores; how they were measured: docs/estimate.md.
"""

from __future__ import annotations

from partition_ops.jobs.estimate.job import LIBRARIES, MIB, PYTHON, READERS, Job, largest
from partition_ops.jobs.estimate.result import StageEstimate
from partition_ops.jobs.options import RunConfig
from partition_ops.stages.partition.engine import find_engine

PAIR_BYTES, PAIR_SORTED, PAIR_BUDGET = 8, 16, 24  # an edge: its key, the copy that is sorted, both
PAIR_FILE = 16  # ... in a bucket on the disk
CLUSTERED = 4  # bytes a half-edge of the whole graph, for the graph of the clusters
METIS = 110  # bytes a half-edge, beside the graph itself, which is mapped
SMALL = 256 << 10
BLOCK_EDGES = 3 << 19  # the edges of a block of text, or of a group of Parquet
MOST_SHORT_ROWS = 1 << 25  # nodes, up to which a range has few enough to count them with 16 bits


def validate(job: Job) -> StageEstimate:
    """The search for duplicates, up to its bound, and counts of the nodes."""
    sizes = job.sizes
    pairs = sizes.pair_edges()
    budget = job.config.memory or job.limit // 4
    inside = sizes.edges * PAIR_BUDGET <= budget
    sought = PAIR_BYTES * sizes.edges + PAIR_SORTED * largest(pairs, job.cores) if inside else budget
    mapped = min(sizes.mapped_feature_bytes, job.cores * 16 * MIB)
    held = job.base + 24 * sizes.nodes + job.cores * job.block + sought
    return StageEstimate(
        stage="validate",
        memory=held + mapped + sizes.largest_decoded_file,
        mapped=LIBRARIES + mapped,
        output=SMALL,
        temporary=0 if inside else PAIR_FILE * sizes.edges,
        cache=job.fetched(sizes.input_bytes),
        seconds=1.5 + sizes.edges * 0.22e-6 + sizes.input_bytes / 1.5e9 + (5 if job.config.data_docs else 0),
    )


def schema(job: Job) -> StageEstimate:
    return StageEstimate(stage="schema", memory=PYTHON, output=SMALL >> 8, seconds=0.1)


def prepare(job: Job) -> StageEstimate | None:
    """Edges dealt out and sorted; None for an engine that does not look at edges."""
    if not needs_graph(job):
        return None
    sizes = job.sizes
    graph = 8 * (sizes.nodes + sizes.half_edges)
    half_edge = (2 if sizes.nodes < MOST_SHORT_ROWS else 4) + sizes.id_bytes
    dealt = job.cores * (job.block + 2 * half_edge * min(BLOCK_EDGES, sizes.largest_chunk()))
    ranges = sizes.range_half_edges()
    merged = (half_edge + sizes.id_bytes) * largest(ranges, job.cores) + 8 * largest(ranges, job.cores + 1)
    return StageEstimate(
        stage="prepare",
        memory=job.base + 32 * sizes.nodes + max(dealt, merged),
        mapped=LIBRARIES,
        output=graph + 8 * sizes.nodes,
        temporary=half_edge * sizes.half_edges,
        cache=job.fetched(sizes.edge_bytes) + job.fetched_back(graph),
        seconds=1.0 + sizes.edges * 0.15e-6,
    )


def partition(job: Job) -> StageEstimate:
    """An engine and its assignment."""
    sizes, engine = job.sizes, job.config.engine
    graph = 8 * (sizes.nodes + sizes.half_edges) if needs_graph(job) else 0
    degrees = 8 * sizes.nodes if job.config.balance == "edges" else 0
    assignment = (5 + len(str(job.parts - 1))) * sizes.nodes
    held, note = _engine_memory(job)
    mapped = 0 if engine == "parmetis" else graph
    return StageEstimate(
        stage="partition",
        memory=job.base + held + degrees + mapped,
        mapped=LIBRARIES + mapped,
        output=assignment,
        cache=job.fetched_back(graph + degrees + assignment),
        seconds=0.7 + _engine_seconds(job),
        note=note,
    )


def needs_graph(job: Job) -> bool:
    """Return whether the engine looks at edges."""
    return find_engine(job.config.engine).needs_graph


def uses_metis(config: RunConfig) -> bool:
    """Whether METIS is given the whole graph, whatever that looks like."""
    return config.engine == "metis" or (config.engine == "auto" and config.objective == "vol")


def metis_memory(job: Job) -> int:
    """Bytes that METIS takes for the whole graph."""
    return METIS * job.sizes.half_edges + 8 * job.sizes.nodes * _constraints(job)


def _engine_memory(job: Job) -> tuple[int, str | None]:
    sizes, engine = job.sizes, job.config.engine
    if not needs_graph(job):
        return 20 * sizes.nodes, None
    if engine == "parmetis":
        return 8 * sizes.nodes, "ParMETIS's own ranks are not estimated"
    if uses_metis(job.config):
        return metis_memory(job), None
    note = "a graph without communities takes more"
    return 60 * sizes.nodes + CLUSTERED * sizes.half_edges, note


def _engine_seconds(job: Job) -> float:
    """More partitions take longer: by their logarithm, as far as that was measured."""
    edges = job.sizes.edges
    doublings = max((job.parts * job.config.num_trainers_per_machine - 1).bit_length(), 1)
    if not needs_graph(job):
        return job.sizes.nodes * 0.1e-6
    if uses_metis(job.config):
        return edges * 0.7e-6 * doublings
    return edges * 0.08e-6 * doublings


def _constraints(job: Job) -> int:
    """Columns of weights."""
    types = len(job.sizes.metadata.node_types)
    return {"node-types": types, "edges": 2 * types, "none": 1}[job.config.balance]


def idmap(job: Job) -> StageEstimate:
    """Parquet with the differences of ascending IDs: as many bits as the gaps between a partition's IDs."""
    sizes = job.sizes
    rows = sizes.nodes + sizes.edges
    bits = 3 + max(job.parts - 1, 1).bit_length()
    output = rows * bits // 8
    return StageEstimate(
        stage="idmap",
        memory=PYTHON + READERS + job.cores * min(45 * MIB, 10 * rows),
        mapped=LIBRARIES // 2,
        output=output,
        cache=job.fetched_back(8 * rows + output),
        seconds=0.5 + rows * 0.035e-6,
    )


def quality(job: Job) -> StageEstimate:
    return StageEstimate(stage="quality", memory=80 * MIB, output=SMALL, seconds=0.7)


def publish(job: Job) -> StageEstimate:
    return StageEstimate(stage="publish", memory=PYTHON, output=SMALL, seconds=0.3)
