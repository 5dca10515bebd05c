"""Readers of the files of a finished output."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.csv as pa_csv
import pyarrow.parquet as pa_parquet

from partition_ops.artifacts import layout
from partition_ops.storage import Store
from partition_ops.system.dgl_import import import_dgl
from partition_ops.verification.dgl_file import check_whole

Array = npt.NDArray[Any]
ID_MAP_COLUMNS = {"orig_id": "int64", "new_id": "int64", "type_new_id": "int64", "part_id": "int32"}


@dataclass(frozen=True)
class PartitionGraph:
    """``graph.dgl`` of one partition.

    Attributes:
        ndata: Node fields, (local nodes,) each.
        edata: Edge fields, (local edges,) each.
        src: (local edges,) local IDs of the sources.
        dst: (local edges,) local IDs of the destinations.
        formats: Sparse formats that the file holds.
    """

    ndata: Mapping[str, Array]
    edata: Mapping[str, Array]
    src: Array
    dst: Array
    formats: tuple[str, ...]


class Output:
    """The partitions of a finished output, on the local disk.

    Args:
        store: The run's root.
        graph_name: Name of the graph.
        folder: Receives links to the local copies of the partitions' files, in the tree that DGL reads.
    """

    def __init__(self, store: Store, graph_name: str, folder: Path) -> None:
        self.store = store
        self.graph_name = graph_name
        self._folder = folder

    @property
    def config(self) -> Path:
        """Return the file that ``dgl.distributed.load_partition`` takes."""
        return self._link(layout.partition_config(self.graph_name))

    def graph(self, part: int) -> PartitionGraph:
        """Read ``graph.dgl``. Peak memory: the content of the file."""
        path = self._dgl_file(part, "graph.dgl")
        graph = import_dgl().load_graphs(str(path))[0][0]
        formats = tuple(graph.formats()["created"])  # before the next line creates another
        src, dst = graph.edges(order="eid")
        return PartitionGraph(
            ndata={name: values.numpy() for name, values in graph.ndata.items()},
            edata={name: values.numpy() for name, values in graph.edata.items()},
            src=src.numpy(),
            dst=dst.numpy(),
            formats=formats,
        )

    def tensors(self, part: int, name: str) -> dict[str, Array]:
        """Read one of a partition's tensor files into memory."""
        path = self._dgl_file(part, name)
        tensors = import_dgl().data.utils.load_tensors(str(path))
        return {key: tensor.numpy() for key, tensor in tensors.items()}

    def load_as_dgl(self, part: int) -> tuple[Any, ...]:
        """Call ``dgl.distributed.load_partition`` with its debug checks."""
        config = self.config
        for name in layout.PARTITION_FILES:
            self._dgl_file(part, name)
        with _environment("DGL_DIST_DEBUG", "1"):
            loaded: tuple[Any, ...] = import_dgl().distributed.load_partition(str(config), part)
        return loaded

    def partition_book(self, part: int) -> Any:
        """Return DGL's partition book of one partition."""
        return import_dgl().distributed.load_partition_book(str(self.config), part)[0]

    def id_map(self, key: str) -> dict[str, Array]:
        """Read the columns of an ID map into memory."""
        table = pa_parquet.ParquetFile(self.store.local_copy(key)).read()
        return {name: table.column(name).to_numpy() for name in table.column_names}

    def assigned(self, node_type: str) -> Array:
        """Read the text file of one node type: (nodes,) int64."""
        path = self.store.local_copy(f"{layout.ASSIGNMENT}/{layout.assignment_text(node_type)}")
        if path.stat().st_size == 0:
            return np.empty(0, np.int64)
        options = pa_csv.ReadOptions(column_names=["part"])
        parts: Array = pa_csv.read_csv(path, read_options=options)["part"].to_numpy()
        return parts

    def assigned_binary(self, node_type: str) -> Array:
        """Read the binary copy of the text file: (nodes,)."""
        key = f"{layout.ASSIGNMENT}/{layout.assignment_binary(node_type)}"
        parts: Array = np.load(self.store.local_copy(key), allow_pickle=False)
        return parts

    def _dgl_file(self, part: int, name: str) -> Path:
        key = layout.partition_file(part, name)
        path = self._link(key)
        check_whole(path, self.store.uri_of(key))
        return path

    def _link(self, key: str) -> Path:
        link = self._folder / key
        if not link.exists():
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(self.store.local_copy(key))
        return link


@contextmanager
def _environment(name: str, value: str) -> Iterator[None]:
    """Set an environment variable inside the context."""
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before
