"""Memory, disk and time of each stage: the formulas of the stages' docstrings, with constants.

Rates are seconds an edge, or a node, on two cores. ``python -m benchmarks.estimates`` compares them with
measurements; docs/estimate.md has the results.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from partition_ops.formats.format import PartitionSize, get_formats
from partition_ops.jobs.estimate.job import LIBRARIES, MIB, PYTHON, Job, largest
from partition_ops.jobs.estimate.result import StageEstimate
from partition_ops.jobs.options import RunConfig
from partition_ops.stages.convert import options as convert_options
from partition_ops.stages.partition.engine import find_engine
from partition_ops.stages.partition.options import is_searched, starts_of_auto
from partition_ops.stages.prepare.options import ROW_BITS, WAITING_RANGES, neighbour_bytes, range_shift
from partition_ops.stages.validate import options as validate_options

PAIR_BYTES, PAIR_SORTED, PAIR_BUDGET = 8, 16, 24  # an edge: its key, the copy to sort, both
PAIR_FILE = 16  # an edge in a bucket on the disk
CLUSTERED = 4  # bytes a half-edge of the whole graph, for the graph of the clusters and METIS
SEARCHED = 37  # bytes a node for a search
MOST_CLUSTERED = 1 << 30  # a larger graph of clusters is contracted again
METIS = 110  # bytes a half-edge, in addition to the graph itself, which is mapped
# seconds of a processor for each start of auto, with what follows, in 2 partitions: on a graph of one node
# type, and of several; for a node, and a half-edge. Then the share that a further partition adds.
# To renew: python -m benchmarks.estimates --real all --output benchmarks/results, and the seconds of
# benchmarks/results/real_graphs.json for more partitions
SEARCH_START, SEARCH_TYPED_START, SEARCH_NODE, SEARCH_HALF_EDGE = 0.15, 0.35, 9e-6, 0.6e-6
SEARCH_PARTITION = 0.11
SMALL = 128 << 10
BLOCK_EDGES = 3 << 19  # the edges of a block of text, or of a group of Parquet
SEGMENT_EDGES, SEGMENT_BYTES = 1 << 21, 48  # edges that scatter holds before it writes
BLOCK_BYTES = 64 * MIB  # data of a gather on its way from one file to another
PLANNED_BYTES, NODE_BYTES = 30, 90  # a node of a partition: in the plans of ``convert``, and measured
MAPPED_BYTES = 240 * MIB  # pages of a mapped file from which a partition takes rows
READS_WORTH_IT = 3  # with more partitions, features that cannot be mapped are scattered
IDMAP, CHARTS = 45 * MIB, 70 * MIB  # pyarrow without readers; matplotlib
OUTER_BYTES = 40  # an edge of another partition, in a temporary file
# share of the edges that a good engine cuts: for each doubling of the partitions, and at most
CUT_OF_A_DOUBLING, MOST_CUT = 0.1, 0.9


def validate(job: Job) -> StageEstimate:
    """Estimate ``validate``: the search for duplicates, up to its limit, and counts of the nodes."""
    sizes = job.sizes
    pairs = sizes.pair_edges()
    budget = job.planned(validate_options.MEMORY_SHARE)
    inside = sizes.edges * PAIR_BUDGET <= budget
    blocks = job.cores * job.block  # they are read before pairs are sorted
    sorting = max(blocks, PAIR_SORTED * largest(pairs, job.cores))
    sought = PAIR_BYTES * sizes.edges + sorting if inside else budget + blocks
    mapped = min(sizes.mapped_feature_bytes, job.cores * 16 * MIB)
    held = job.base + 24 * sizes.nodes + sought
    return StageEstimate(
        stage="validate",
        memory=held + mapped + sizes.largest_decoded_file,
        mapped=LIBRARIES + mapped,
        output=SMALL,
        temporary=0 if inside else PAIR_FILE * sizes.edges,
        cache=job.fetched(sizes.input_bytes),
        seconds=1.2 + sizes.edges * 0.07e-6 + sizes.input_bytes / 1.5e9 + (5 if job.config.data_docs else 0),
    )


def schema(job: Job) -> StageEstimate:
    """Estimate ``schema``."""
    return StageEstimate(stage="schema", memory=PYTHON, output=SMALL >> 8, seconds=0.1)


def prepare(job: Job) -> StageEstimate | None:
    """Estimate ``prepare``: edges split by range and sorted; None for an engine that reads no edges."""
    if not needs_graph(job):
        return None
    sizes = job.sizes
    graph = sizes.prepared_bytes
    half_edge = (2 if range_shift(sizes.nodes) <= ROW_BITS else 4) + sizes.id_bytes
    dealt = job.cores * (job.block + 2 * half_edge * min(BLOCK_EDGES, sizes.largest_chunk()))
    ranges = sizes.range_half_edges()
    merged = 2 * half_edge * largest(ranges, job.cores)
    merged += 8 * largest(ranges, job.cores + 1 + WAITING_RANGES)
    return StageEstimate(
        stage="prepare",
        memory=job.base + 32 * sizes.nodes + max(dealt, merged),
        mapped=LIBRARIES,
        output=graph + 8 * sizes.nodes,
        temporary=half_edge * sizes.half_edges,
        cache=job.fetched(sizes.edge_bytes) + job.fetched_back(graph),
        seconds=1.0 + sizes.edges * 0.06e-6,
    )


def partition(job: Job) -> StageEstimate:
    """Estimate ``partition``: an engine and its assignment."""
    sizes, engine = job.sizes, job.config.engine
    graph = sizes.prepared_bytes if needs_graph(job) else 0
    degrees = 8 * sizes.nodes if job.config.balance == "edges" else 0
    assignment = (5 + len(str(job.parts - 1))) * sizes.nodes
    held, note = _engine_memory(job)
    mapped = 0 if engine == "parmetis" else graph
    if mapped and not uses_metis(job.config) and neighbour_bytes(sizes.nodes, sizes.edges) == 8:
        held, mapped = held + 4 * sizes.half_edges, 0  # a copy with 32 bits
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
    """Return whether the engine reads edges."""
    return find_engine(job.config.engine).needs_graph


def uses_metis(config: RunConfig) -> bool:
    """Return whether METIS partitions the whole graph, whatever its structure."""
    return config.engine == "metis" or (config.engine == "auto" and config.objective == "vol")


def metis_memory(job: Job) -> int:
    """Return the bytes that METIS takes for the whole graph; it gets neighbours of 64 bits."""
    sizes = job.sizes
    copied = 0 if neighbour_bytes(sizes.nodes, sizes.edges) == 8 else 8 * sizes.half_edges
    return METIS * sizes.half_edges + copied + 8 * sizes.nodes * _constraints(job)


def _engine_memory(job: Job) -> tuple[int, str | None]:
    sizes, engine = job.sizes, job.config.engine
    if not needs_graph(job):
        return 20 * sizes.nodes, None
    if engine == "parmetis":
        return 8 * sizes.nodes, "the ranks of ParMETIS are not estimated"
    if uses_metis(job.config):
        return metis_memory(job), None
    if starts := _starts(job):
        sums = _parts(job) * min(job.cores, starts)  # of the partitions that are made at a time
        return metis_memory(job) + 4 * sizes.nodes * (15 + sums), None
    note = "a graph without communities takes more"
    clustered = min(CLUSTERED * sizes.half_edges, MOST_CLUSTERED)
    if not _is_searched(job):
        return 36 * sizes.nodes + clustered, note
    return (36 + SEARCHED + 4 * _parts(job)) * sizes.nodes + clustered, note


def _is_searched(job: Job) -> bool:
    """Return whether the engine searches for moves in the whole of a large graph."""
    return job.config.engine == "auto" and is_searched(job.sizes.half_edges, job.sizes.nodes * _parts(job))


def _parts(job: Job) -> int:
    """Return the number of partitions that the engine makes: one for each trainer."""
    return job.parts * job.config.num_trainers_per_machine


def _starts(job: Job) -> int:
    """Return how many partitions the engine makes; 0 for a single one."""
    if job.config.engine != "auto" or uses_metis(job.config) or job.parts == 1:
        return 0
    work, sums = job.sizes.nodes + job.sizes.half_edges, job.sizes.nodes * _parts(job)
    return starts_of_auto(job.config.effort, work, sums)


def _engine_seconds(job: Job) -> float:
    """Return seconds; the search of auto was measured with up to 64 partitions."""
    edges = job.sizes.edges
    parts = _parts(job)
    doublings = max((parts - 1).bit_length(), 1)
    if not needs_graph(job):
        return job.sizes.nodes * 0.1e-6
    if uses_metis(job.config):
        return edges * 0.7e-6 * doublings
    starts = _starts(job)
    if starts:
        each = SEARCH_TYPED_START if len(job.sizes.metadata.node_types) > 1 else SEARCH_START
        each += SEARCH_NODE * job.sizes.nodes + SEARCH_HALF_EDGE * job.sizes.half_edges
        return starts * each * (1 + SEARCH_PARTITION * (parts - 2)) / min(job.cores, starts)
    return edges * (0.075e-6 if _is_searched(job) else 0.05e-6) * doublings


def _constraints(job: Job) -> int:
    """Return the number of weights of a node."""
    types = len(job.sizes.metadata.node_types)
    return {"node-types": types, "edges": 2 * types, "none": 1}[job.config.balance]


@dataclass(frozen=True)
class Halo:
    """Expected sums over the halos of all partitions.

    Attributes:
        nodes: Halo nodes.
        edges: Edges in the graphs of the partitions.
        outer: The part of `edges` that another partition owns.
    """

    nodes: int
    edges: int
    outer: int


def expected_halo(job: Job) -> Halo:
    """Return the expected halos, for an engine that cuts as much as on the benchmark graphs."""
    nodes, edges, parts = job.sizes.nodes, job.sizes.edges, job.parts
    share = 1 - 1 / parts
    cut = min(CUT_OF_A_DOUBLING * math.log2(parts), MOST_CUT, share) if needs_graph(job) else share
    if job.config.num_hops == 0:
        return Halo(0, int(edges * (1 - cut)), 0)
    others, own_edges = nodes * share, edges / parts
    halo = _distinct(own_edges * cut, others)
    fresh, outer = halo, 0.0
    for _ in range(job.config.num_hops - 1):
        found = edges * fresh / max(nodes, 1)
        outer = min(outer + found, edges - own_edges)
        reached = max(halo, min(_distinct(own_edges * cut + outer, others), others))
        fresh, halo = reached - halo, reached
    if job.config.out_edges:
        outer = min(outer + own_edges * cut, edges - own_edges)
        halo = max(halo, min(_distinct(own_edges * cut + outer, others), others))
    return Halo(int(halo * parts), int(edges + outer * parts), int(outer * parts))


def _distinct(draws: float, of: float) -> float:
    """Return the expected number of different nodes in ``draws`` draws from ``of`` nodes."""
    return of * -math.expm1(-draws / of) if of > 0 else 0.0


def convert(job: Job) -> StageEstimate:
    """Estimate ``convert``: buckets and partitions, several at a time if memory allows."""
    sizes, halo = job.sizes, expected_halo(job)
    scattering, gathering = _scatter_memory(job), _gather_memory(job, halo, NODE_BYTES)
    workers = _workers(job, _gather_memory(job, halo, PLANNED_BYTES))
    graphs, buckets = _graph_bytes(job, halo), _bucket_bytes(job)
    features = _feature_bytes(job)
    whole = [form.whole_bytes for form in get_formats(job.config.formats)]
    held = max(
        _workers(job, scattering) * scattering,
        workers * gathering,
        *(nodes * sizes.nodes + edges * sizes.edges for nodes, edges in whole),
    )
    read = sizes.mapped_feature_bytes + buckets  # mapped, and released now and then
    mapped = min(workers * min(MAPPED_BYTES, sizes.largest_mapped_file), read)
    return StageEstimate(
        stage="convert",
        memory=job.base + 13 * sizes.nodes + held + mapped + sizes.largest_decoded_file,
        mapped=LIBRARIES + mapped,
        output=graphs + features,
        scratch=buckets,
        temporary=OUTER_BYTES * halo.outer,  # of all partitions: the files of one outlive it
        cache=_cache(job, graphs + features, buckets, workers),
        seconds=1.0 + sizes.edges * 0.05e-6 + (graphs + features + 2 * buckets) / 1.2e9,
    )


def _scatter_memory(job: Job) -> int:
    limit = job.planned(convert_options.MEMORY_SHARE)
    most = max(16, min(SEGMENT_EDGES, limit // (4 * job.cores * SEGMENT_BYTES)))
    return job.block + SEGMENT_BYTES * min(most, job.sizes.largest_chunk())


def _gather_memory(job: Job, halo: Halo, node_bytes: int) -> int:
    """Return the bytes of one partition at work, with what the allocator keeps of freed memory."""
    sizes, parts = job.sizes, job.parts
    formats, options = get_formats(job.config.formats), job.config.convert.options()
    writing = max(form.memory(_partition_size(job, halo), options) for form in formats)
    streamed = min(BLOCK_BYTES, (sizes.node_feature_bytes + sizes.edge_feature_bytes) // parts + 4 * MIB)
    nodes = (sizes.nodes + halo.nodes) // parts
    return 5 * sizes.nodes + node_bytes * nodes + writing + streamed


def _workers(job: Job, task_bytes: int) -> int:
    limit = job.planned(convert_options.MEMORY_SHARE)
    possible = (limit - 12 * job.sizes.nodes) // max(task_bytes, 1)
    return max(1, min(job.cores, job.parts, possible))


def _partition_size(job: Job, halo: Halo) -> PartitionSize:
    typed = not job.sizes.metadata.is_homogeneous
    return PartitionSize((job.sizes.nodes + halo.nodes) // job.parts, halo.edges // job.parts, typed)


def _graph_bytes(job: Job, halo: Halo) -> int:
    """Return the bytes of the graph files of all partitions in all formats; on a disk, some share them."""
    size, options = _partition_size(job, halo), job.config.convert.options()
    formats = get_formats(job.config.formats)
    if not job.remote_destination:
        formats = list({form.graph_files or form.name: form for form in formats}.values())
    return job.parts * sum(form.disk(size, options) for form in formats)


def _feature_bytes(job: Job) -> int:
    """Return the bytes of features and original IDs; on a disk, some formats share their files."""
    sizes, formats = job.sizes, get_formats(job.config.formats)
    shared = {form.feature_files or form.name for form in formats}
    trainers = 9 if job.config.num_trainers_per_machine > 1 else 0
    once = sizes.node_feature_bytes + sizes.edge_feature_bytes + (8 + trainers) * (sizes.nodes + sizes.edges)
    return once * len(formats if job.remote_destination else shared)


def _scattered_features(job: Job) -> int:
    """Return the bytes of the node features that go through buckets."""
    if job.parts <= READS_WORTH_IT:
        return 0
    features = job.sizes.metadata.node_features
    wanted = [one for one in features if job.remote_source or one.data.format.name != "numpy"]
    return sum(job.sizes.decoded(one) for one in wanted)


def _bucket_bytes(job: Job) -> int:
    return 3 * job.sizes.bucket_id_bytes * job.sizes.edges + _scattered_features(job)


def _cache(job: Job, output: int, buckets: int, workers: int) -> int:
    """Return the bytes below ``TMPDIR``: files from S3, buckets, and files on their way to S3."""
    on_the_way = (workers + 1) * output // job.parts
    return job.fetched(job.sizes.input_bytes) + job.fetched_back(buckets + on_the_way + 4 * job.sizes.nodes)


def idmap(job: Job) -> StageEstimate:
    """Estimate ``idmap``: Parquet stores gaps between ascending IDs, with as many bits as they need."""
    sizes = job.sizes
    rows = sizes.nodes + sizes.edges
    bits = 3 + max(job.parts - 1, 1).bit_length()
    output = rows * bits // 8
    return StageEstimate(
        stage="idmap",
        memory=PYTHON + IDMAP + job.cores * min(70 * MIB, 10 * rows),
        mapped=LIBRARIES // 2,
        output=output,
        cache=job.fetched_back(8 * rows + output),
        seconds=0.5 + rows * 0.018e-6,
    )


def quality(job: Job) -> StageEstimate:
    """Estimate ``quality``."""
    memory = PYTHON + CHARTS
    return StageEstimate(stage="quality", memory=memory, mapped=LIBRARIES // 2, output=SMALL, seconds=1.1)


def publish(job: Job) -> StageEstimate:
    """Estimate ``publish``."""
    return StageEstimate(stage="publish", memory=PYTHON, output=SMALL, seconds=0.3)
