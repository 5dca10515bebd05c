"""The graph that a grown one continues: its keys, and what was fitted for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from partition_ops.artifacts.documents import read_document
from partition_ops.chunked.metadata import METADATA
from partition_ops.errors import InvalidInputError
from partition_ops.storage import Store
from partition_ops.storage.local_store import LocalStore

MANIFEST = "ingest.json"
NODE_IDS = "node_ids"


def read_manifest(store: Store) -> dict[str, Any]:
    """Read ``ingest.json`` of a graph that was made from tables.

    Raises:
        InvalidInputError: The graph was not made from tables, or the file is damaged.
    """
    if not store.exists(MANIFEST):
        raise InvalidInputError(
            f"{store.uri} is not a graph that 'partition-ops ingest' has made",
            found=f"no {MANIFEST}",
            expected="the folder of an earlier ingested graph",
        )
    return read_document(store, MANIFEST, "ingest")


def key_files(graph: Store, node_type: str) -> list[Path]:
    """Return the files with the keys of a node type, in the order of their IDs; none for an unknown type."""
    spec = graph.read_json(METADATA).get(NODE_IDS, {}).get(node_type)
    return [graph.local_copy(key) for key in spec["data"]] if spec else []


def continued_graph(graph: Store, folder: LocalStore) -> Store | None:
    """Return the graph that an ingested graph has continued, as far as `ingest_task` needs it.

    It may be gone, but the keys of the ingested graph begin with its keys. They are copied to ``folder``,
    with what was fitted, so that the same tables give the same graph again.

    Args:
        graph: Root of the ingested graph.
        folder: An empty folder.

    Returns:
        ``folder``, or None if the ingested graph has not continued another one.

    Raises:
        InvalidInputError: The graph was not made from tables, or ``ingest.json`` is damaged.

    Peak memory: a row group of keys.
    """
    manifest = read_manifest(graph)
    counts = {
        name: state["old_nodes"] for name, state in manifest["node_types"].items() if state["old_nodes"]
    }
    if not counts:
        return None
    for name, count in counts.items():
        with folder.create(_copy_of(name)) as new:
            _copy_rows(key_files(graph, name), count, new.path)
    folder.write_json(MANIFEST, manifest)
    folder.write_json(METADATA, {NODE_IDS: {name: {"data": [_copy_of(name)]} for name in counts}})
    return folder


def _copy_of(node_type: str) -> str:
    return f"{NODE_IDS}/{node_type}.parquet"


def _copy_rows(files: list[Path], count: int, target: Path) -> None:
    """Copy the first rows of Parquet files of one schema."""
    with pq.ParquetWriter(target, pq.read_schema(files[0])) as writer:
        for path in files:
            with pq.ParquetFile(path, memory_map=True) as file:
                for batch in file.iter_batches() if count else ():
                    writer.write_batch(batch.slice(0, count))
                    count -= min(count, len(batch))
