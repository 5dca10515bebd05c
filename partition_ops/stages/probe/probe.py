"""Stage ``probe``: sample as trainers would, to measure how much they fetch from other partitions."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from partition_ops.artifacts import layout
from partition_ops.artifacts.book import read_book
from partition_ops.artifacts.records import config_task, conversion_tasks, read_record
from partition_ops.artifacts.tasks import ArtifactWriter, Counters, StageResult, Task
from partition_ops.chunked.metadata import load_metadata
from partition_ops.errors import UsageError, one_of
from partition_ops.stages.probe.options import ProbeConfig
from partition_ops.storage import Store
from partition_ops.system.progress import NoProgress, Progress
from partition_ops.system.temporary_folders import temporary_folder
from partition_ops.traffic.train_nodes import TrainType, check_mask, choose_train_types
from partition_ops.train.in_edges import FoundNodes, sample_in_edges
from partition_ops.train.stored_graph import StoredGraph

PROBE_VERSION = 1
COUNTED = ("neighbours", "remote_neighbours", "input_rows", "remote_rows", "remote_bytes")

Ids = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Probed:
    """Figures from sampling."""

    document: dict[str, Any]  # as ``schemas/probe.schema.json`` describes it; the same for the same options
    found: list[TrainerFigures]  # figures of each trainer; their times differ from run to run

    @property
    def batches_per_second(self) -> float:
        """Batches a second of one trainer, on average."""
        return _per_second(self.found)

    @property
    def by_partition(self) -> dict[str, float]:
        """Batches a second of each trainer, by the number of its partition as text."""
        return {str(one.part): _per_second([one]) for one in self.found}

    def counters(self) -> Counters:
        """Return the figures for the task's record, which may differ from run to run."""
        total = self.document["total"]
        return {
            "remote_neighbour_share": total["remote_neighbour_share"],
            "remote_bytes_per_batch": total["remote_bytes_per_batch"],
            "batches_per_second": self.batches_per_second,
            "batches_per_second_by_partition": self.by_partition,
        }


def probe_run(
    config: ProbeConfig, source: Store, destination: Store, *, progress: Progress | None = None
) -> StageResult:
    """Sample as the trainers of a cluster would, one on each partition, before the run is published.

    Writes ``quality/probe.json``, which ``quality`` reads for its report. The speed is only in the task's
    record, because it differs from run to run, and artifacts do not.

    Args:
        config: Sampling options.
        source: Root of the input graph; only its ``metadata.json`` is read.
        destination: Root of the run, where every partition has been converted.
        progress: Shows the partitions.

    Returns:
        The share of remote neighbours, the bytes that a batch fetches remotely, and batches a second by
        partition.

    Raises:
        InvalidInputError: The partitions are not converted.
        UsageError: There is no such partition, node type or feature; or the partitions cannot be sampled
            together.

    Peak memory: as `Prober.partition`. Disk: 32 bytes an edge and 8 bytes a node for each edge type, below
    ``TMPDIR``.
    """
    name = load_metadata(source, graph_name=config.graph_name).graph_name
    read_record(destination, config_task(destination))  # raises an error if convert has not been done
    num_parts = read_book(destination, name).num_parts

    def sample() -> Probed:
        with temporary_folder() as folder:
            return probe_partitions(
                config, destination, cache=Path(folder), unpublished=True, progress=progress
            )

    return probe_task(destination, num_parts, config.options(), sample).run()


def probe_task(
    destination: Store, num_parts: int, options: Mapping[str, Any], sample: Callable[[], Probed]
) -> Task:
    """Return the task that samples and writes ``quality/probe.json``.

    Args:
        destination: Root of the run.
        num_parts: Number of partitions.
        options: Sampling options.
        sample: Samples the partitions.
    """

    def work(writer: ArtifactWriter) -> Counters:
        probed = sample()
        writer.write_json(layout.QUALITY_PROBE, probed.document)
        return probed.counters()

    return Task(
        "probe",
        destination,
        work,
        options=options,
        after=conversion_tasks(destination, num_parts),
        outputs=[layout.QUALITY_PROBE],
    )


def probe_partitions(
    config: ProbeConfig,
    output: Store,
    *,
    cache: Path | None = None,
    unpublished: bool = False,
    progress: Progress | None = None,
) -> Probed:
    """Sample, and write nothing to the output; see `probe_run`.

    Args:
        config: Sampling options.
        output: Root of an output.
        cache: Folder of the cache.
        unpublished: Whether the output may lack a manifest.
        progress: Shows the partitions.
    """
    with StoredGraph(output, cache=cache, unpublished=unpublished) as graph:
        prober = Prober(config, graph)
        found = []
        with (progress or NoProgress()).step("Sampling", len(prober.parts), "partitions") as advance:
            for part in prober.parts:
                found.append(prober.partition(part))
                advance(1)
        document = {
            "version": PROBE_VERSION,
            "graph_name": graph.book.graph_name,
            "num_parts": graph.book.num_partitions(),
            "partition_config_sha256": graph.config_sha256,
            "options": {
                "train_nodes": [str(one) for one in prober.train_types],
                "fanouts": list(config.sampling.fanouts),
                "batch_size": config.sampling.batch_size,
                "batches": config.batches,
                "features": prober.features,
                "seed": config.seed,
            },
            "partitions": [{"part": one.part, **_figures([one])} for one in found],
            "total": _figures(found),
        }
    return Probed(document, found)


def _figures(found: list[TrainerFigures]) -> dict[str, Any]:
    """Return the sums of the figures of some trainers."""
    batches = sum(one.batches for one in found)
    counts = {name: sum(one.counts[name] for one in found) for name in COUNTED}
    return {
        "seeds": sum(one.seeds for one in found),
        "batches": batches,
        **counts,
        "remote_neighbour_share": round(_ratio(counts["remote_neighbours"], counts["neighbours"]), 6),
        "remote_bytes_per_batch": round(_ratio(counts["remote_bytes"], batches)),
    }


def _per_second(found: list[TrainerFigures]) -> float:
    return round(_ratio(sum(one.batches for one in found), sum(one.seconds for one in found)), 3)


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


@dataclass(frozen=True)
class TrainerFigures:
    """Figures of the trainer of one partition."""

    part: int
    seeds: int  # number of seeds
    batches: int  # number of batches
    counts: dict[str, int]  # the sums of `COUNTED` over the batches
    seconds: float  # time for sampling and for reading features


@dataclass(frozen=True)
class Seeds:
    """The seeds of a trainer."""

    nodes: dict[str, Ids]  # by node type, (n,) int64 type-wise new IDs of train nodes
    order: Ids  # (seeds,) int64, positions among the train nodes of all types, in the order of the batches

    def batch(self, positions: Ids) -> dict[str, Ids]:
        """Return the nodes at some positions by their type; types without any are left out."""
        found, begin = {}, 0
        for node_type, ids in self.nodes.items():
            here = positions[(positions >= begin) & (positions < begin + len(ids))] - begin
            begin += len(ids)
            if len(here):
                found[node_type] = ids[here]
        return found


class Prober:
    """Samples one graph, partition by partition.

    Args:
        config: Sampling options.
        graph: The graph, with new IDs.

    Raises:
        UsageError: There is no such node type, feature or partition.
    """

    def __init__(self, config: ProbeConfig, graph: StoredGraph) -> None:
        self._config = config
        self._graph = graph
        self.train_types = _train_types(config, graph)
        self.features = _features(config, graph)
        self.parts = _parts(config, graph)
        self._row_bytes = {
            ntype: sum(graph.node_rows(name, ntype).row_bytes for name in names)
            for ntype, names in self.features.items()
        }

    def partition(self, part: int) -> TrainerFigures:
        """Sample as the trainer of a partition, in one thread.

        A neighbour is remote if another partition than the trainer's owns it. A batch fetches the rows of its
        input nodes, each once; those of nodes that another partition owns are fetched remotely.

        Peak memory: as `StoredGraph`, the IDs of the seed type, and a batch.
        """
        size, random = self._config.sampling.batch_size, np.random.default_rng(self._config.seed)
        counts, seconds, batches = dict.fromkeys(COUNTED, 0), 0.0, 0
        seeds = self._seeds(part, random)
        for begin in range(0, len(seeds.order), size):
            began = time.perf_counter()
            inputs, drawn = self._sample(seeds.batch(seeds.order[begin : begin + size]), random)
            seconds += time.perf_counter() - began
            self._count(part, inputs, drawn, counts)
            batches += 1
        return TrainerFigures(part, len(seeds.order), batches, counts, seconds)

    def _seeds(self, part: int, random: np.random.Generator) -> Seeds:
        """Return some of the train nodes that the partition owns, in random order."""
        graph, nodes = self._graph, {}
        for one in self.train_types:
            owned = graph.book.partid2nids(part, one.node_type)
            if one.mask is not None:
                rows = graph.node_rows(one.mask, one.node_type).take(owned)
                check_mask(f"{one.node_type}/{one.mask}", rows.dtype, rows.shape[1:])
                owned = owned[rows.reshape(len(owned)) != 0]
            nodes[one.node_type] = owned
        order = random.permutation(sum(map(len, nodes.values())))
        return Seeds(nodes, order[: self._config.batches * self._config.sampling.batch_size])

    def _sample(
        self, batch: dict[str, Ids], random: np.random.Generator
    ) -> tuple[dict[str, Ids], list[tuple[str, Ids]]]:
        """Sample layer by layer, as DGL's ``NeighborSampler``, and read the features of the input nodes.

        Returns:
            Input nodes by type, and the type and IDs of the neighbours for each layer and edge type.
        """
        graph, drawn = self._graph, []
        nodes = {ntype: FoundNodes(batch.get(ntype)) for ntype in graph.ntypes}
        for fanout in reversed(self._config.sampling.fanouts):
            outputs = {ntype: found.ids for ntype, found in nodes.items()}
            for etype in graph.canonical_etypes:
                known, seed = graph.adjacency("in", etype), int(random.integers(1 << 32))
                arrays = known.indptr, known.indices, known.eids
                neighbours, _, _ = sample_in_edges(*arrays, outputs[etype[2]], fanout, False, seed)
                nodes[etype[0]].add(neighbours)
                drawn.append((etype[0], neighbours))
        inputs = {ntype: found.ids for ntype, found in nodes.items()}
        for ntype, names in self.features.items():
            for name in names:
                graph.node_rows(name, ntype).take(inputs[ntype])
        return inputs, drawn

    def _count(
        self, part: int, inputs: dict[str, Ids], drawn: list[tuple[str, Ids]], counts: dict[str, int]
    ) -> None:
        def remote(ntype: str, nodes: Ids) -> int:
            return int(np.count_nonzero(self._graph.owners(nodes, ntype) != part))

        for ntype, nodes in drawn:
            counts["neighbours"] += len(nodes)
            counts["remote_neighbours"] += remote(ntype, nodes)
        for ntype, nodes in inputs.items():
            rows = remote(ntype, nodes)
            counts["input_rows"] += len(nodes)
            counts["remote_rows"] += rows
            counts["remote_bytes"] += rows * self._row_bytes.get(ntype, 0)


def _train_types(config: ProbeConfig, graph: StoredGraph) -> list[TrainType]:
    node_types = list(graph.book.nodes.names.names)  # by type ID
    features = {(ntype, name) for ntype in node_types for name in graph.node_features(ntype)}
    ends = {etype[2] for etype in graph.canonical_etypes if graph.num_edges(etype)}
    return choose_train_types(node_types, features, ends, config.train_nodes)


def _parts(config: ProbeConfig, graph: StoredGraph) -> list[int]:
    known = graph.book.num_partitions()
    wanted = sorted(set(range(known) if config.parts is None else config.parts))
    if not wanted or wanted[0] < 0 or wanted[-1] >= known:
        raise UsageError("There is no such partition", found=wanted, expected=f"0 to {known - 1}")
    return wanted


def _features(config: ProbeConfig, graph: StoredGraph) -> dict[str, list[str]]:
    """Return the names of the features that are fetched, by node type."""
    known = {ntype: graph.node_features(ntype) for ntype in graph.ntypes}
    if config.features is None:
        return {ntype: names for ntype, names in known.items() if names}
    missing = [name for name in config.features if not any(name in names for names in known.values())]
    if missing:
        names = dict.fromkeys(name for names in known.values() for name in names)
        raise UsageError(
            f"No node type has the feature {missing[0]!r}",
            expected=one_of(names) if names else "no --feature: no node has any",
        )
    wanted = {ntype: [n for n in names if n in config.features] for ntype, names in known.items()}
    return {ntype: names for ntype, names in wanted.items() if names}
