"""Options of ``convert``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from partition_ops.errors import UsageError
from partition_ops.formats.format import format_names, get_formats
from partition_ops.options.declare import MOST_PARTS, Options, StageConfig, option
from partition_ops.options.values import memory_option, tasks_option

MEMORY_SHARE = 0.75  # of the available memory, for building partitions
GRAPH_FORMATS = ("coo", "csr", "csc")
GRAPHBOLT_ATTRIBUTES = ("eids", "inner_node", "inner_edge")  # of DGL's dgl_partition_to_graphbolt


@dataclass(frozen=True, kw_only=True)
class ConvertConfig(StageConfig):
    """Options of ``convert``."""

    memory: int | None = memory_option(
        "As many partitions are built at a time as fit, and a command that takes more ends with an error."
    )
    convert_tasks: int | None = tasks_option(
        "convert",
        None,
        "Number of tasks, at most, that scatter edges and features, and of those that build partitions."
        " In the DAG, they run on several workers and exchange files below the output; elsewhere, one process"
        " does all. As many as there are workers take the least processor time, because each task reads the"
        " whole assignment. The result does not depend on the option.",
        empty="one for each 32 MiB of input, at most 32 and one for each partition",
    )
    num_hops: int = option(
        1,
        help="Number of hops of the halo. 0: no edges from other partitions. 1: all in-edges of the"
        " partition's nodes. 2 or more: also in-edges of halo nodes.",
        title="Hops of the halo",
        section="More",
        metavar="N",
        minimum=0,
        maximum=255,
    )
    out_edges: bool = option(
        False,
        help="Also store in each partition the edges that leave it, and their destinations as halo nodes, as"
        " dgl.distributed.partition_graph does. Without them, out_degrees of a DistGraph misses these edges.",
        title="Out-edges",
        section="More",
    )
    graph_formats: tuple[str, ...] = option(
        ("coo",),
        help="Sparse formats in graph.dgl: some of coo, csr and csc, separated by commas.",
        title="Sparse formats",
        section="More",
        metavar="F,F,…",
        choices=GRAPH_FORMATS,
    )
    formats: tuple[str, ...] = option(
        ("dgl",),
        help=f"Output formats, separated by commas: some of {', '.join(format_names())}. pyg is written in"
        " addition to another one. The ID maps, training and other readers use the first one that they can"
        " read.",
        title="Output formats",
        section="More",
        metavar="F,F,…",
        choices=format_names,
    )
    graphbolt_attributes: tuple[str, ...] = option(
        ("eids",),
        help="Attributes in the graphs of the output format graphbolt, separated by commas. eids: new IDs of"
        " the edges, which edge features need. inner_node, inner_edge: whether the partition owns a node, or"
        " an edge. none: only new IDs of the nodes.",
        title="Attributes for GraphBolt",
        section="More",
        metavar="A,A,…",
        choices=(*GRAPHBOLT_ATTRIBUTES, "none"),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.out_edges and self.num_hops == 0:
            raise UsageError(
                "--out-edges needs a halo, which has the destinations of these edges",
                found="--num-hops 0",
                expected="1 or more",
            )
        if "none" in self.graphbolt_attributes and len(self.graphbolt_attributes) > 1:
            raise UsageError(
                "--graphbolt-attributes cannot have none together with others",
                found=",".join(self.graphbolt_attributes),
                expected="none, or some of " + ", ".join(GRAPHBOLT_ATTRIBUTES),
            )
        attributes = tuple(name for name in GRAPHBOLT_ATTRIBUTES if name in self.graphbolt_attributes)
        object.__setattr__(self, "graphbolt_attributes", attributes or ("none",))
        ordered = tuple(name for name in GRAPH_FORMATS if name in self.graph_formats)
        object.__setattr__(self, "graph_formats", ordered)  # any order of the words means the same
        object.__setattr__(self, "formats", tuple(dict.fromkeys(self.formats)))

    def options(self) -> dict[str, Any]:
        """Return the options that the partitions depend on, as JSON."""
        options = super().options()
        if "graphbolt" not in self.formats:
            del options["graphbolt_attributes"]
        return {key: list(value) if isinstance(value, tuple) else value for key, value in options.items()}

    def task_options(self) -> dict[str, Any]:
        """Return the same, and the version of each output format.

        Raises:
            UsageError: A format is not installed.
        """
        return {**self.options(), "format_versions": {f.name: f.version for f in get_formats(self.formats)}}


@dataclass(frozen=True, kw_only=True)
class ForeignAssignment(Options):
    """An assignment that something else has made, for ``convert``."""

    assignment: str | None = option(
        None,
        help="Folder of the assignment.",
        metavar="DIR",
        empty="assignment/ below --output",
        form=None,
    )
    parmetis_parts: int | None = option(
        None,
        help="Number of partitions that pm_dglpart wrote to the folder of the assignment.",
        metavar="K",
        minimum=1,
        maximum=MOST_PARTS,
        empty="the folder has partition_meta.json and <node type>.txt",
        only_with="assignment",
        form=None,
    )
    num_node_weights: int | None = option(
        None,
        help="Number of weights of a node in the text of pm_dglpart.",
        metavar="N",
        minimum=0,
        empty="0",
        only_with="parmetis_parts",
        form=None,
    )
