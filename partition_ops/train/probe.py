"""What a partitioning means for training: mini-batches as the trainer of each partition would sample them."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from partition_ops import artifacts
from partition_ops.dgl_import import import_dgl
from partition_ops.errors import UsageError
from partition_ops.progress import NoProgress, Progress
from partition_ops.storage import Store
from partition_ops.train.graph import PartitionedGraph

PROBE_VERSION = 1
TRAIN_MASK = "train_mask"

dgl = import_dgl()


@dataclass(frozen=True, kw_only=True)
class ProbeConfig:
    """What is sampled.

    Attributes:
        node_type: Type of the seeds; where None, the first one with the feature ``train_mask``, else the one
            with most nodes.
        fanouts: For each layer, the number of edges of each type for a node; -1 is all.
        batch_size: Seeds of a batch.
        batches: Batches for each partition, at most.
        features: Names of the node features that a batch fetches for its input nodes; all where None.
        seed: Of what is drawn; the same seed gives the same figures but for the speed.
    """

    node_type: str | None = None
    fanouts: tuple[int, ...] = (10, 10)
    batch_size: int = 1024
    batches: int = 20
    features: tuple[str, ...] | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.fanouts or any(fanout < -1 for fanout in self.fanouts):
            raise UsageError("The fanouts are wrong", found=self.fanouts, expected="numbers of -1 or more")
        for name in ("batch_size", "batches"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name} is too small", found=getattr(self, name), expected="1 or more")


def probe_partitions(
    config: ProbeConfig,
    output: Store,
    *,
    parts: Iterable[int] | None = None,
    cache: Path | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Sample as the trainers of a cluster would, one on each partition, and count what is elsewhere.

    A neighbour is remote if another partition than the trainer's owns it. A batch fetches the rows of its
    input nodes, each once; those of nodes that another partition owns are fetched remotely.

    Args:
        config: What is sampled.
        output: Root of a finished output.
        parts: The partitions that are probed; all where left out.
        cache: Folder of the cache.
        progress: Shows the batches.

    Returns:
        The document that ``schemas/probe.schema.json`` describes.

    Raises:
        InvalidInputError: The output is not finished.
        UsageError: There is no such partition, node type or feature.

    Peak memory: as `PartitionedGraph`, and the IDs of the seed type.
    """
    with PartitionedGraph(output, cache=cache) as graph:
        known = graph.book.num_partitions()
        wanted = sorted(set(range(known) if parts is None else parts))
        if not wanted or wanted[0] < 0 or wanted[-1] >= known:
            raise UsageError("There is no such partition", found=wanted, expected=f"0 to {known - 1}")
        probe = _Probe(config, graph)
        with (progress or NoProgress()).step("Sampling", len(wanted), "partitions") as advance:
            found = []
            for part in wanted:
                found.append(probe.partition(part))
                advance(1)
        options = {**asdict(config), "node_type": probe.node_type, "fanouts": list(config.fanouts)}
        options["features"] = {ntype: list(names) for ntype, names in probe.features.items()}
        return {
            "version": PROBE_VERSION,
            "graph_name": graph.book.graph_name,
            "num_parts": known,
            "partition_config_sha256": graph.config_sha256,
            "options": options,
            "partitions": found,
            "total": _total(found),
        }


def write_probe(document: dict[str, Any], output: Store) -> str:
    """Write ``quality/probe.json`` beside the quality report; URI of the file.

    The manifest does not list it: the output stays what was published.
    """
    output.write_json(artifacts.QUALITY_PROBE, document)
    return output.uri_of(artifacts.QUALITY_PROBE)


class _Probe:
    """One graph, probed partition by partition."""

    def __init__(self, config: ProbeConfig, graph: PartitionedGraph) -> None:
        self._config = config
        self._graph = graph
        self.node_type = config.node_type or _seed_type(graph)
        self.features = _features(config, graph)
        self._row_bytes = {
            ntype: sum(graph.node_rows(name, ntype).row_bytes for name in names)
            for ntype, names in self.features.items()
        }

    def partition(self, part: int) -> dict[str, Any]:
        """The figures of one trainer."""
        config, graph = self._config, self._graph
        dgl.seed(config.seed)
        generator = torch.Generator().manual_seed(config.seed)
        seeds = self._seeds(part)
        seeds = seeds[torch.randperm(len(seeds), generator=generator)][: config.batches * config.batch_size]
        sampler = dgl.dataloading.NeighborSampler(list(config.fanouts))
        counts = dict.fromkeys(("edges", "remote_edges", "rows", "remote_rows", "remote_bytes"), 0)
        batches, seconds = 0, 0.0
        for begin in range(0, len(seeds), config.batch_size):
            began = time.perf_counter()
            batch = {self.node_type: seeds[begin : begin + config.batch_size]}
            inputs, _, blocks = sampler.sample(graph, batch)
            inputs = inputs if isinstance(inputs, dict) else {graph.ntypes[0]: inputs}
            for ntype, names in self.features.items():
                for name in names:
                    graph.node_rows(name, ntype).take(inputs[ntype].numpy())
            seconds += time.perf_counter() - began
            self._count(part, inputs, blocks, counts)
            batches += 1
        return {"part": part, **_figures(len(seeds), batches, seconds, counts)}

    def _seeds(self, part: int) -> Any:
        """Type-wise new IDs of the seeds that the partition owns."""
        owned = self._graph.book.partid2nids(part, self.node_type)
        if TRAIN_MASK in self._graph.node_features(self.node_type):
            owned = owned[self._graph.node_rows(TRAIN_MASK, self.node_type).take(owned) != 0]
        return torch.from_numpy(owned)

    def _count(self, part: int, inputs: Any, blocks: list[Any], counts: dict[str, int]) -> None:
        graph = self._graph
        for block in blocks:
            for etype in block.canonical_etypes:
                src, _ = block.edges(etype=etype)
                nodes = block.srcnodes[etype[0]].data[dgl.NID][src]
                counts["edges"] += len(nodes)
                counts["remote_edges"] += int((graph.node_partition(nodes, etype[0]) != part).sum())
        for ntype, nodes in inputs.items():
            remote = int((graph.node_partition(nodes, ntype) != part).sum())
            counts["rows"] += len(nodes)
            counts["remote_rows"] += remote
            counts["remote_bytes"] += remote * self._row_bytes.get(ntype, 0)


def _seed_type(graph: PartitionedGraph) -> str:
    masked = [ntype for ntype in graph.ntypes if TRAIN_MASK in graph.node_features(ntype)]
    return masked[0] if masked else max(graph.ntypes, key=graph.num_nodes)


def _features(config: ProbeConfig, graph: PartitionedGraph) -> dict[str, list[str]]:
    """Names of the features that are fetched, by node type."""
    known = {ntype: graph.node_features(ntype) for ntype in graph.ntypes}
    if config.features is None:
        return {ntype: names for ntype, names in known.items() if names}
    missing = [name for name in config.features if not any(name in names for names in known.values())]
    if missing:
        raise UsageError(f"No node type has the feature {missing[0]!r}", expected="a name in node_data")
    wanted = {ntype: [n for n in names if n in config.features] for ntype, names in known.items()}
    return {ntype: names for ntype, names in wanted.items() if names}


def _figures(seeds: int, batches: int, seconds: float, counts: dict[str, int]) -> dict[str, Any]:
    return {
        "seeds": seeds,
        "batches": batches,
        "neighbours": counts["edges"],
        "remote_neighbours": counts["remote_edges"],
        "remote_neighbour_share": _ratio(counts["remote_edges"], counts["edges"]),
        "input_rows": counts["rows"],
        "remote_rows": counts["remote_rows"],
        "remote_bytes": counts["remote_bytes"],
        "remote_bytes_per_batch": round(_ratio(counts["remote_bytes"], batches)),
        "batches_per_second": round(batches / seconds, 3) if seconds else 0.0,
    }


def _total(found: list[dict[str, Any]]) -> dict[str, Any]:
    """All partitions together; the speed is that of one trainer, on average."""
    sums = (
        "seeds",
        "batches",
        "neighbours",
        "remote_neighbours",
        "input_rows",
        "remote_rows",
        "remote_bytes",
    )
    total: dict[str, Any] = {key: sum(one[key] for one in found) for key in sums}
    seconds = sum(one["batches"] / one["batches_per_second"] for one in found if one["batches_per_second"])
    total["remote_neighbour_share"] = _ratio(total["remote_neighbours"], total["neighbours"])
    total["remote_bytes_per_batch"] = round(_ratio(total["remote_bytes"], total["batches"]))
    total["batches_per_second"] = round(total["batches"] / seconds, 3) if seconds else 0.0
    return total


def _ratio(part: int, whole: int) -> float:
    return round(part / whole, 6) if whole else 0.0
