"""What ``convert`` takes: how large the halos are, then files, buckets and memory."""

from __future__ import annotations

import math
from dataclasses import dataclass

from partition_ops.jobs.estimate.job import LIBRARIES, MIB, Job
from partition_ops.jobs.estimate.result import StageEstimate
from partition_ops.jobs.estimate.stages import needs_graph

SEGMENT_EDGES, SEGMENT_BYTES = 1 << 21, 48  # what scatter holds before it writes
BLOCK_BYTES = 64 * MIB  # what a gather has on its way from one file to another
PLANNED_BYTES, NODE_BYTES = 30, 90  # a node of a partition: as ``convert`` plans with, as was measured
MAPPED_BYTES = 240 * MIB  # ... and of the file that it maps: whole pages, of which it takes some rows
READS_WORTH_IT = 3  # with more partitions, features that cannot be mapped are scattered
OUTER_BYTES = 40  # an edge of another partition, in a temporary file
CUT_OF_A_DOUBLING, MOST_CUT = (
    0.1,
    0.9,
)  # share of the edges that a good engine cuts, by log2 of the partitions


@dataclass(frozen=True)
class Halo:
    """Sums over all partitions, expected.

    Attributes:
        nodes: Halo nodes.
        edges: Edges in the graphs of the partitions.
        outer: Those among them that another partition owns.
    """

    nodes: int
    edges: int
    outer: int


def expected_halo(job: Job) -> Halo:
    """What the halos will hold if the engine does about as well as on the graphs that were tried."""
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
    return Halo(int(halo * parts), int(edges + outer * parts), int(outer * parts))


def _distinct(draws: float, of: float) -> float:
    """How many different nodes are met by so many draws among so many."""
    return of * -math.expm1(-draws / of) if of > 0 else 0.0


def convert(job: Job) -> StageEstimate:
    """Buckets and partitions, several at a time as far as memory goes."""
    sizes, halo = job.sizes, expected_halo(job)
    scattering, gathering = _scatter_memory(job), _gather_memory(job, halo, NODE_BYTES)
    workers = _workers(job, _gather_memory(job, halo, PLANNED_BYTES))
    graphs, buckets = _partition_bytes(job, halo), _bucket_bytes(job)
    features = sizes.node_feature_bytes + sizes.edge_feature_bytes
    held = max(_workers(job, scattering) * scattering, workers * gathering)
    read = sizes.mapped_feature_bytes + buckets  # mapped, and given back now and then
    mapped = min(workers * min(MAPPED_BYTES, sizes.largest_mapped_file), read)
    return StageEstimate(
        stage="convert",
        memory=job.base + 13 * sizes.nodes + held + mapped + sizes.largest_decoded_file,
        mapped=LIBRARIES + mapped,
        output=graphs + features,
        scratch=buckets,
        temporary=OUTER_BYTES * halo.outer,  # of all partitions: the files of one outlive it
        cache=_cache(job, graphs + features, buckets, workers),
        seconds=1.0 + sizes.edges * 0.15e-6 + (graphs + features + 2 * buckets) / 0.7e9,
    )


def _scatter_memory(job: Job) -> int:
    limit = job.config.memory or job.limit * 3 // 4
    most = max(16, min(SEGMENT_EDGES, limit // (4 * job.cores * SEGMENT_BYTES)))
    return job.block + SEGMENT_BYTES * min(most, job.sizes.largest_chunk())


def _gather_memory(job: Job, halo: Halo, node_bytes: int) -> int:
    """Bytes of one partition at work; the allocator keeps some of what is given back meanwhile."""
    sizes, parts = job.sizes, job.parts
    compressed = len({*job.config.graph_formats} - {"coo"})
    streamed = min(BLOCK_BYTES, (sizes.node_feature_bytes + sizes.edge_feature_bytes) // parts + 4 * MIB)
    nodes = (sizes.nodes + halo.nodes) // parts
    return 5 * sizes.nodes + node_bytes * nodes + compressed * 16 * halo.edges // parts + streamed


def _workers(job: Job, task_bytes: int) -> int:
    limit = job.config.memory or job.limit * 3 // 4
    possible = (limit - 12 * job.sizes.nodes) // max(task_bytes, 1)
    return max(1, min(job.cores, job.parts, possible))


def _partition_bytes(job: Job, halo: Halo) -> int:
    """Bytes of ``graph.dgl`` and the original IDs of all partitions, which are the same in every graph."""
    sizes = job.sizes
    types = 0 if sizes.metadata.is_homogeneous else 4
    sparse = 16 * len(job.config.graph_formats) * halo.edges
    compressed = len({*job.config.graph_formats} - {"coo"})
    nodes = sizes.nodes + halo.nodes
    data = (17 + types) * halo.edges + (25 + types + 8 * compressed) * nodes
    trainers = 9 if job.config.num_trainers_per_machine > 1 else 0
    return sparse + data + (8 + trainers) * (sizes.nodes + sizes.edges) + 8192 * job.parts


def _scattered_features(job: Job) -> int:
    """Bytes of the node features that go through buckets."""
    if job.parts <= READS_WORTH_IT:
        return 0
    features = job.sizes.metadata.node_features
    wanted = [one for one in features if job.remote_source or one.data.format.name != "numpy"]
    return sum(job.sizes.decoded(one) for one in wanted)


def _bucket_bytes(job: Job) -> int:
    return 3 * job.sizes.bucket_id_bytes * job.sizes.edges + _scattered_features(job)


def _cache(job: Job, output: int, buckets: int, workers: int) -> int:
    """The files of the graph and, on S3, the buckets, what is on its way to partitions, the assignment."""
    on_the_way = (workers + 1) * output // job.parts
    return job.fetched(job.sizes.input_bytes) + job.fetched_back(buckets + on_the_way + 4 * job.sizes.nodes)
