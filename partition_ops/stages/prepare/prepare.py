"""Write the symmetric homogeneous graph that the engines read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from partition_ops.artifacts import layout
from partition_ops.artifacts.dropped_edges import ListedEdges
from partition_ops.artifacts.tasks import ArtifactWriter, Counters, StageResult, Task, input_objects
from partition_ops.artifacts.write_access import check_apart
from partition_ops.chunked.edges import EdgeReader
from partition_ops.chunked.metadata import load_metadata
from partition_ops.formats.parmetis.prepare_text import prepare_text_task
from partition_ops.stages.prepare.options import PrepareConfig
from partition_ops.stages.prepare.preparation import Preparation
from partition_ops.stages.prepare.spread import Spread
from partition_ops.storage import Store
from partition_ops.system.progress import NoProgress, Progress

if TYPE_CHECKING:
    from partition_ops.traffic.kept_half_edges import KeptHalfEdges


def prepare_graph(
    config: PrepareConfig,
    source: Store,
    destination: Store,
    *,
    progress: Progress | None = None,
    half_edges: KeptHalfEdges | None = None,
) -> StageResult:
    """Write ``prepare/graph.parhip``, ``prepare/in_degrees.npy`` and ``prepare/stats.json``.

    With the format ``parmetis``, text files are written instead: see `prepare_text_task`.

    The graph holds every edge in both directions, on homogeneous IDs. Duplicates are merged, also across edge
    types and directions. Self-loops, and edges that validation has dropped or excluded, are left out. The
    in-degrees count all edges except those that validation has dropped or excluded, duplicates and
    self-loops included, as ``dgl.distributed.partition_graph`` balances them.

    Args:
        config: Options.
        source: Root of the input graph; its edges are read once.
        destination: Root of the run.
        progress: Shows the edges read.
        half_edges: Where to leave them for ``partition`` in this process. Nothing is left if validation has
            excluded edges, with several tasks, with the format ``parmetis``, or if the task is done already.

    Returns:
        The numbers of nodes, of half-edges, and of self-loops left out.

    Raises:
        InvalidInputError: An edge file cannot be read.

    Peak memory: 32 bytes a node, and for each core a block of edges with a copy. Or, if that is more, for
    each core 20 bytes a half-edge of one of 512 or more ranges of nodes, and 8 of five others (up to twice
    that beyond 2**31 nodes). 12 to 16 bytes an edge go through a temporary file (below ``TMPDIR``), which
    stays until ``half_edges`` is taken or closed; what it makes in a thread comes on top. With
    ``config.prepare_tasks`` above 1, this does the tasks of `Spread` that are not done, one after another,
    and then `Spread.join`.
    """
    if config.format == "parmetis":
        return prepare_text_task(
            source,
            destination,
            graph_name=config.graph_name,
            weights=config.weights,
            attributes=config.attributes,
            progress=progress,
        ).run()
    metadata = load_metadata(source, graph_name=config.graph_name)
    check_apart(source, destination, metadata)
    hidden = ListedEdges(destination, layout.DROPPED, layout.EXCLUDED)

    spread = Spread(config, source, destination, progress) if config.prepare_tasks > 1 else None

    def work(writer: ArtifactWriter) -> Counters:
        if spread is not None:
            return spread.join(writer)
        reader = EdgeReader(source, metadata, hidden.ids(metadata))
        kept = None if hidden.digests[layout.EXCLUDED] else half_edges  # training reads the excluded ones
        return Preparation(metadata, progress or NoProgress()).write(reader, writer, kept)

    task = Task(
        "prepare",
        destination,
        work,
        options={**config.options(), **hidden.digests},
        inputs=input_objects(source, metadata),
        outputs=layout.PREPARED,
        requires=tuple if spread is None else spread.required,
    )
    return task.run() if spread is None else spread.run_last(task)
