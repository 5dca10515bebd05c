"""The schema file of the DGL guide, chapter 7.1: ``{"nid": {type: [start, end]}, "eid": {…}}``."""

from __future__ import annotations

from partition_ops.artifacts import layout
from partition_ops.artifacts.graph_schema import schema_of
from partition_ops.artifacts.tasks import ArtifactWriter, Counters, StageResult, Task
from partition_ops.chunked.metadata import load_metadata
from partition_ops.stages.schema.options import SchemaConfig
from partition_ops.storage import Store
from partition_ops.system.progress import Progress


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
