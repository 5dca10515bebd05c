"""Manifest, ID maps and assignment of an output, read with code of our own.

The stages read them with `partition_ops.artifacts`: a mistake there must not hide itself here.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pa_parquet

from partition_ops.artifacts import layout
from partition_ops.chunked.feature_formats import read_numpy
from partition_ops.storage import Store
from partition_ops.system.json_documents import check_document

Array = npt.NDArray[Any]


def read_whole_manifest(output: Store) -> dict[str, Any]:
    """Return the manifest of an output.

    Raises:
        InvalidInputError: The manifest is not valid JSON, or not a manifest of this version.
    """
    manifest: dict[str, Any] = output.read_json(layout.MANIFEST)
    check_document(manifest, "manifest", where=output.uri_of(layout.MANIFEST))
    return manifest


def read_parquet(output: Store, key: str) -> pa.Table:
    """Return a table, whole in memory, as users read it: pyarrow then checks more than for `ParquetFile`."""
    return pa_parquet.read_table(output.local_copy(key), partitioning=None)


def read_id_map(output: Store, key: str) -> dict[str, Array]:
    """Return the columns of an ID map, whole in memory."""
    table = read_parquet(output, key)
    return {name: table.column(name).to_numpy() for name in table.column_names}


def read_assigned(output: Store, node_type: str) -> Array:
    """Return the partitions in the text file of a node type, (nodes,) int64."""
    path = output.local_copy(f"{layout.ASSIGNMENT}/{layout.assignment_text(node_type)}")
    if path.stat().st_size == 0:
        return np.empty(0, np.int64)
    options = pa_csv.ReadOptions(column_names=["part"])
    parts: Array = pa_csv.read_csv(path, read_options=options)["part"].to_numpy()
    return parts


def read_assigned_binary(output: Store, node_type: str) -> Array:
    """Return the partitions in the binary copy of the text file, (nodes,)."""
    return load_array(output, f"{layout.ASSIGNMENT}/{layout.assignment_binary(node_type)}")


def trainers_per_machine(output: Store) -> int:
    """Return the number of trainers on each machine that the assignment was made for."""
    key = f"{layout.ASSIGNMENT}/{layout.ASSIGNMENT_SIDECAR}"
    if not output.exists(key):
        return 1
    sidecar = output.read_json(key)
    check_document(sidecar, "assignment", where=output.uri_of(key))
    return int(sidecar["made_by"].get("num_trainers_per_machine", 1))


def read_trainers(output: Store, node_type: str) -> Array:
    """Return the trainer of every node of a type, (nodes,) int64; see `trainers_per_machine`."""
    trainers = load_array(output, f"{layout.ASSIGNMENT}/{layout.assignment_trainers(node_type)}")
    return trainers.astype(np.int64)


def load_array(output: Store, key: str, *, mmap: bool = False) -> Array:
    """Return the array of a ``.npy`` file, in memory or mapped.

    Raises:
        InvalidInputError: It is damaged.
    """
    values = read_numpy(output.local_copy(key), output.uri_of(key))
    return values if mmap else np.array(values)
