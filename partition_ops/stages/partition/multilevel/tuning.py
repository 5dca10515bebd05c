"""Constants that decide the quality and the time of a partitioning, one preset for each effort.

docs/decisions/two-level.md, docs/decisions/search.md and docs/decisions/growth.md say what was measured. The
*work* of a graph is its nodes and half-edges; its *sums* are its nodes times the partitions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple

METIS_TOLERANCE = 1.03  # largest weight of a partition over its share, unless the user asks for another
PARMETIS_TOLERANCE = 1.05  # the same of ParMETIS, as its manual recommends
# compiled into loops, or part of the result on any machine: the same for each effort
LOOKED_UP = 1 << 11  # half-edges; values looked up for so many stay in the first-level cache
ATTEMPTS = 3  # to take the heaviest label without a look at the sizes of all
SCALE = 8  # with homes, an edge counts so much, for prices between 0 and 1
MOST_OF_A_BATCH = 1 << 15  # nodes that are processed before their proposals are entered
LEAST_BATCHES = 64  # of a graph
LEAST_SHARED = 1 << 11  # nodes; fewer are processed in less time than other threads take to begin, 0.1 ms
PIECES_OF_A_THREAD = 4  # of a batch: 2 % of the wall time of a job at scales 0.2 and 1
NEXT_SEED = 7919  # METIS draws the same random numbers for the seeds 0 and 1
LONGEST = 100  # moves of a search that do not make the mean gain negative
LEAST_TOLERANCE = 1.001  # that METIS works with
REFINED = 1.1  # of a loose limit: so much over it is no reason to call METIS again if refinement follows
OF_SPARE = 0.85  # of what a loose limit allows beyond the share: METIS exceeds its tolerance by a little
MOST_OF_SHARE = 4  # ParMETIS balances classes of which no node weighs more than a quarter of a share
NODES_OF_A_PART = 20  # a graph with fewer for each partition is small: its partitions are made even
ROUNDING = 1e-9  # errors of shares that are whole numbers of nodes are smaller
LIGHT = 1 / 64  # of a partition's share of in-edges: lighter nodes fill any gap
SHARE_OF_MEAN = 0.1  # of the mean trainer, in the cost: among partitions with equal slowest trainers
USUAL = 100  # weight of an edge in the middle, so that edges that nobody samples still count a little


class Rates(NamedTuple):
    """Processor seconds that `auto` predicts: a constant, and a factor of the half-edges.

    For a partitioning, a third one is of the half-edges times partitions. They are predictions from sizes,
    not measurements of this machine: the same graph and options give the same plan anywhere. To renew:
    python -m benchmarks.real_graphs
    """

    rest: tuple[float, float] = (1.8, 0.15e-6)  # the rest of a job
    # a start over clusters, with the search that follows
    over_clusters: tuple[float, float, float] = (0.08, 0.12e-6, 0.03e-6)
    whole: tuple[float, float, float] = (0.08, 0.9e-6, 0.06e-6)  # METIS on the whole graph, likewise
    combination: tuple[float, float, float] = (0.05, 0.15e-6, 0.015e-6)  # of two partitions
    reading: float = 0.08e-6  # of an edge, for the model of the traffic; a factor only
    # of that model, for each four partitions: a constant, and factors of the nodes and of the edges times
    # layers
    evaluation: tuple[float, float, float] = (0.0002, 50e-9, 7e-9)


RATES = Rates()


@dataclass(frozen=True, kw_only=True)
class Contraction:
    """How a graph is contracted into clusters, and these into clusters again."""

    clusters: tuple[int, ...] = (32,)  # of the largest size make a partition; by level, or in turns
    fewest: int = 0  # nodes for each partition; a graph with so many is not contracted
    levels: int = 1 << 10  # contractions at most
    shrinking: float = 0.95  # with more clusters than this share of the nodes, a level is not worthwhile
    sweeps: int = 3  # of label propagation; with more, large clusters absorb small ones, which is worse
    settled: float = 0.03  # share of the nodes; after a sweep that moves fewer, no other follows


@dataclass(frozen=True, kw_only=True)
class Descent:
    """Moves that lower the expected traffic of training."""

    share: float = 0.1  # of the nodes that move in the first step
    growth: float = 1.5  # of that share, after a step that helps
    least: int = 8  # nodes of a step
    power: float = 4.0  # of a trainer's rows, as its importance: the slowest one counts most
    settled: float = 1e-3  # a step that saves less does not help


@dataclass(frozen=True, kw_only=True)
class NearHome:
    """Searches near the old partition of a graph that has grown."""

    most_moved: float = 0.1  # share of the old nodes
    clusters: tuple[int, ...] = (256, 512, 128)  # of the largest size make a partition; in turns
    prices: tuple[float, ...] = (0.05, 0.03, 0.1)  # multiples of the migration price; in turns
    price_of_pairs: float = 0.03  # the same if partitions are combined
    dearer: int = 3  # factor of the price while a result moves too many nodes
    most_pulls: int = 4  # at higher prices
    first: int = 3  # starts; if refinement around the changes cuts fewer edges than all of them, none follow
    starts: float = 0.5  # as many as a full run has, for half of its time
    starts_of_a_round: int = 2  # so many starts for each round of combinations
    near: float = 1.01  # times the smallest cut: refinement around the changes, which moves few, is enough
    searches: int = 3  # on the smallest graph; the best of them goes on
    sampled: int = 2  # starts of a sample, to tell whether a grown graph must be cut more
    pays: int = 3  # a full run moves a third of the nodes; it must gain so many times the drift


@dataclass(frozen=True, kw_only=True)
class Tuning:
    """The constants of one effort."""

    # how often auto partitions a graph; see `partition_ops.stages.partition.engines.auto.plan_of`
    share: float = 0.5  # of the processor time of the rest of the job, for further partitions
    most_starts: int = 6
    for_starts: float = 0.8  # share of that time for more than two; the rest is for combinations
    most_sums: int = 1 << 27  # a graph with more is searched for moves in its clusters only, 4 bytes each

    # many partitions have small clusters, with edges of which most are light
    many_parts: int = 16  # more are many
    # clusters for each of them: METIS cuts a graph with no more by recursive bisection, once; its k-way
    # method begins with several of these, which take most of its time
    bisected: int = 1024
    dense: int = 32  # half-edges for each cluster, the heaviest of the graph, that METIS and searches get

    # the engine two-level
    over_clusters: Contraction = Contraction(clusters=(32,), shrinking=0.8)
    over_clusters_of_many: Contraction = Contraction(clusters=(64, 16), shrinking=0.8)
    few_nodes: int = 20_000  # METIS partitions a graph of so many directly
    most_half_edges: int = 1 << 24  # in a graph of clusters; a larger one is contracted again

    # several partitions from different starts, and combinations of the best
    isolated: float = 0.01  # share of a class; if more nodes have no neighbours, they are placed last
    starts: tuple[int, ...] = (32, 0, 64, 16, 128, 256)  # clusters that make a partition; 0: none
    to_metis: Contraction = Contraction(fewest=200, levels=3)
    to_metis_of_many: Contraction = Contraction(fewest=100, levels=3)
    most_of_kahypar: int = 16  # partitions; with more it takes long, and cuts no fewer edges
    most_work_of_kahypar: int = 1 << 21  # half-edges; its module takes lists, 200 bytes a half-edge
    quality_starts: int = 0  # of Mt-KaHyPar's preset quality, after all others
    with_kahypar: Tuning | None = None  # other constants for a graph that Mt-KaHyPar can partition
    clustered: float = 0.15  # with at most this share of clusters, the graph has communities
    skewed: int = 100  # with this ratio of the largest degree to the mean degree, the graph has hubs
    thorough: bool = False  # whether a cycle follows each start, and METIS takes part in combinations
    cycle: Contraction = Contraction(fewest=30)
    combination: Contraction = Contraction(fewest=60)  # a cycle of two partitions, with METIS
    growth: int = 8  # factor between the sizes of the clusters of two levels of a cycle
    combined: int = 4  # so many of the best partitions are combined, each with every other
    combined_seeds: int = 4  # METIS partitions the smallest graph of a combination so often
    most_rounds: int = 4  # of combinations; none follows if the best partitions are combined already
    light: float = 0.9  # of its share; lighter partitions are filled up
    filling: float = 0.02  # share of the cut that this may cost

    # moves of single nodes, each of which pays
    refine_sweeps: int = 12  # over all nodes
    refine_settled: float = 2e-4  # share of the nodes; after a sweep that moves fewer, no other follows
    times_balanced: int = 3  # so often nodes leave partitions that hold too much

    # searches for moves that pay together
    passes: int = 10  # over all nodes at the border
    pass_settled: float = 1e-3  # share of the cut; after a pass that saves less, no other follows
    # the same for the first start in a graph that is partitioned once by default
    pass_settled_of_large: float = 0.02
    sample: int = 1 << 12  # a pass ends when so many nodes save little
    samples: int = 128  # ... or such a share of them
    patience: float = 1.0  # a search ends earlier if this is smaller; alpha of Osipov and Sanders
    exchanges: int = 3  # so often at most, nodes change places and searches follow
    exchange_rounds: int = 10  # over all partitions
    nearly_full: float = 0.9  # of the in-edges that a partition may have: nodes change places with it
    exchange_settled: float = 1e-3  # share of the cut; after a round that saves less, no other follows

    # the expected traffic of training
    for_traffic: float = 0.12  # share of the processor time of the rest of the job
    for_uneven_traffic: float = 0.25  # the same, if the model reads a part of the edges much more than others
    uneven: float = 0.2  # with this share of edges in effect, by the squares of their weights, it does
    nearly_even: float = 0.006  # over the share of train nodes in a partition of a large graph, to begin with
    descents: int = 2  # of so many of the best partitions
    most_evaluations: int = 60  # of the model, in each
    descent: Descent = field(default_factory=Descent)

    # incremental runs
    near_home: NearHome = field(default_factory=NearHome)
    regroup: Contraction = Contraction(fewest=50, levels=7, shrinking=0.9, sweeps=5)  # clusters may be larger
    regroup_prices: tuple[float, ...] = (1.0, 0.3)  # multiples of the migration price
    slack: float = 0.02  # share of a partition: it may hold so much more of each type on the smallest graph
    less_slack: float = 0.4  # factor from level to level; there is no slack on the graph itself


DEFAULT = Tuning()
TUNINGS = {
    "fast": Tuning(share=0.0),
    "default": DEFAULT,
    "best": Tuning(
        share=math.inf,
        most_starts=24,
        thorough=True,
        for_traffic=math.inf,
        for_uneven_traffic=math.inf,
        descents=4,
        most_evaluations=200,
        with_kahypar=Tuning(
            quality_starts=2,
            for_traffic=math.inf,
            for_uneven_traffic=math.inf,
            descents=3,
            most_evaluations=200,
        ),
    ),
}
