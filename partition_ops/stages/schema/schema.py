"""The schema file of the DGL guide, chapter 7.1: ``{"nid": {type: [start, end]}, "eid": {…}}``."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

from partition_ops.artifacts import layout
from partition_ops.artifacts.tasks import ArtifactWriter, Counters, StageResult, Task
from partition_ops.chunked.metadata import GraphMetadata, load_metadata
from partition_ops.stages.schema.options import SchemaConfig
from partition_ops.storage import Store
from partition_ops.system.progress import Progress

GraphSchema = dict[str, dict[str, list[int]]]


def write_schema(
    config: SchemaConfig, source: Store, destination: Store, *, progress: Progress | None = None
) -> StageResult:
    """Write ``schema/<graph>.json``.

    Args:
        config: Options.
        source: Root of the input graph; only its ``metadata.json`` is read.
        destination: Root of the run.
        progress: Not used, the stage takes no time.

    Returns:
        The number of node and edge types.

    Raises:
        InvalidInputError: The metadata are invalid.
    """
    metadata = load_metadata(source, graph_name=config.graph_name)
    schema = schema_of(metadata)
    key = layout.schema_file(metadata.graph_name)

    def work(writer: ArtifactWriter) -> Counters:
        writer.write_json(key, schema)
        return {
            "graph_name": metadata.graph_name,
            "node_types": len(schema["nid"]),
            "edge_types": len(schema["eid"]),
        }

    options = {**config.options(), "schema": schema}
    return Task("schema", destination, work, options=options, outputs=[key]).run()


def schema_of(metadata: GraphMetadata, *, plain: bool = False) -> GraphSchema:
    """Return half-open homogeneous ID ranges of every node type and edge type, in type ID order.

    Args:
        metadata: The graph's metadata.
        plain: Name an edge type by its relation alone, as the guide does, if no other edge type has the same
            relation, and it has edges from which a reader can learn the node types; else ``src:rel:dst``.
    """
    relations = Counter(edge_type.rel for edge_type in metadata.edge_types)
    edge_types = [
        edge_type.rel if plain and count and relations[edge_type.rel] == 1 else str(edge_type)
        for edge_type, count in zip(metadata.edge_types, metadata.num_edges, strict=True)
    ]
    return {
        "nid": _ranges(metadata.node_types, metadata.node_offsets),
        "eid": _ranges(edge_types, metadata.edge_offsets),
    }


def _ranges(names: tuple[str, ...] | list[str], offsets: tuple[int, ...]) -> dict[str, list[int]]:
    return {name: list(ends) for name, ends in zip(names, pairwise(offsets), strict=True)}
