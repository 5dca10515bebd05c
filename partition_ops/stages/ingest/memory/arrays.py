"""`MemoryGraph`: a graph in memory as an input; `ArrayGraph`: one of NumPy arrays, written and read back."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from os import PathLike, fspath
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from partition_ops.artifacts.lock import locked
from partition_ops.artifacts.tasks import ArtifactWriter, Counters, StageResult, Task
from partition_ops.chunked.edges import EdgeReader
from partition_ops.chunked.feature_reader import KINDS, feature_readers, is_supported
from partition_ops.chunked.graph_writer import DST, ORIG_ID, SRC, GraphWriter, rows_of_chunk
from partition_ops.chunked.metadata import METADATA, load_metadata, parse_metadata
from partition_ops.chunked.names import EdgeType
from partition_ops.errors import InvalidInputError, some_of
from partition_ops.storage import StorageSettings, Store, open_store
from partition_ops.storage.store import StoredObject
from partition_ops.system.progress import Progress

Array = npt.NDArray[Any]
Ids = npt.NDArray[np.int64]
Data = Mapping[str, Mapping[str, Array]]
SHOWN = 5
BLOCK = 1 << 20  # edges that become a table at a time


class MemoryGraph(ABC):
    """A graph in memory, as `partition_ops.ingest` makes it of a graph of DGL, PyG or NetworkX, or of tables.

    `partition_ops.run` and `partition_ops.verify` take it as their input.

    Attributes:
        graph_name: Name of the graph.
    """

    graph_name: str
    numbers_nodes: ClassVar[bool] = False  # whether `ingest` gives the nodes their IDs

    def write(
        self,
        output: str | PathLike[str],
        *,
        storage: StorageSettings | None = None,
        progress: Progress | None = None,
    ) -> StageResult:
        """Write the graph in the chunked format, with ``metadata.json`` at its root.

        If it is there already, nothing is written.

        Args:
            output: URI or path of the folder; it is created.
            storage: How to reach S3; by default boto3 finds credentials and the endpoint itself.
            progress: Shows the progress; by default nothing is shown.

        Returns:
            Counts of nodes and edges.

        Raises:
            InvalidInputError: The graph cannot be written; the message names the type.
            ConflictError: Another process works on the output.
            UsageError: The folder has content of others.

        Peak memory: 128 MiB beside the graph; for Arrow tables, a quarter of what the machine allows.
        """
        with open_store(fspath(output), storage) as destination, locked(destination, "ingest"):
            return self.ingest(destination, progress=progress)

    @abstractmethod
    def ingest(
        self, destination: Store, *, graph_name: str | None = None, progress: Progress | None = None
    ) -> StageResult:
        """Write the graph as the stage ``ingest`` does; the caller has locked the destination.

        Args:
            destination: Root of the graph.
            graph_name: Used instead of the name of the graph.
            progress: Shows the progress.
        """


@dataclass(frozen=True, repr=False, eq=False)
class ArrayGraph(MemoryGraph):
    """A graph of NumPy arrays. It is checked when it is made.

    Raises:
        InvalidInputError: A type is unknown, a shape or dtype is wrong, or an ID is out of range.
    """

    where: str  # what the graph is, for messages
    graph_name: str  # name of the graph
    num_nodes: Mapping[str, int]  # nodes by node type, in the order of their type IDs
    # by edge type, in the order of their type IDs, the type-wise IDs of sources and destinations, (edges,)
    # integers each, by type-wise edge ID
    edges: Mapping[EdgeType, tuple[Array, Array]]
    # by node type and name, (nodes, ...) arrays of numbers or booleans of at most 64 bits
    node_data: Data = field(default_factory=dict)
    edge_data: Data = field(default_factory=dict)  # by edge type and name, (edges, ...) arrays
    # by node type, the user's own keys, (nodes,) text or int64; not all types need them
    node_ids: Mapping[str, pa.Array] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._check_names()
        for edge_type, ends in self.edges.items():
            self._check_ends(edge_type, *ends)
        for type_name, arrays in self.node_data.items():
            self._check_data(f"nodes {type_name!r}", arrays, self.num_nodes[type_name], "nodes")
        for type_name, arrays in self.edge_data.items():
            count = next(len(ends[0]) for name, ends in self.edges.items() if str(name) == type_name)
            self._check_data(f"edges {type_name!r}", arrays, count, "edges")

    def _check_names(self) -> None:
        """Check names of types and features as for ``metadata.json``."""
        for name in (*self.num_nodes, *(part for kind in self.edges for part in kind.triple)):
            if ":" in name:
                raise InvalidInputError(
                    f"{self.where}: a name of a type contains ':'", found=repr(name), remedy="Rename it."
                )
        if not self.edges:
            raise InvalidInputError(f"{self.where} has no edge type", expected="at least one")
        sections = {"node_data": self.node_data, "edge_data": self.edge_data}
        document: dict[str, Any] = {
            "graph_name": self.graph_name,
            "node_type": list(self.num_nodes),
            "num_nodes_per_type": [*self.num_nodes.values()],
            "edge_type": [str(kind) for kind in self.edges],
            "num_edges_per_type": [len(src) for src, _ in self.edges.values()],
            "edges": {str(kind): {"format": {"name": "parquet"}, "data": ["edges"]} for kind in self.edges},
        }
        for section, data in sections.items():
            document[section] = {
                kind: {name: {"format": {"name": "numpy"}, "data": ["data"]} for name in arrays}
                for kind, arrays in data.items()
            }
        try:
            parse_metadata(document, where=self.where)
        except InvalidInputError as error:
            remedy = error.remedy and error.remedy.replace(" in metadata.json", "")
            raise InvalidInputError(
                error.problem, found=error.found, expected=error.expected, remedy=remedy
            ) from None

    def _check_ends(self, kind: EdgeType, src: Array, dst: Array) -> None:
        where = f"{self.where}: edges '{kind}'"
        if src.ndim != 1 or src.shape != dst.shape:
            raise InvalidInputError(
                f"{where}: sources and destinations are not two lists of the same length",
                found=f"shapes {src.shape} and {dst.shape}",
            )
        for end, node_type in ((src, kind.src), (dst, kind.dst)):
            if len(end) and end.dtype.kind not in "iu":
                raise InvalidInputError(
                    f"{where}: IDs of nodes are not integers", found=str(end.dtype), expected="int64"
                )
            count = self.num_nodes[node_type]
            if len(end) and (int(end.min()) < 0 or int(end.max()) >= count):
                wrong = np.flatnonzero((end < 0) | (end >= count))
                raise InvalidInputError(
                    f"{where}: {len(wrong):,} IDs of {node_type!r} are out of range",
                    found=some_of([f"{end[i]} (edge {i})" for i in wrong[:SHOWN]], SHOWN),
                    expected=f"0 to {count - 1}, because there are {count:,} nodes {node_type!r}"
                    if count
                    else f"none, because there are no nodes {node_type!r}",
                )

    def _check_data(self, where: str, arrays: Mapping[str, Array], count: int, noun: str) -> None:
        for name, array in arrays.items():
            if array.ndim == 0 or len(array) != count:
                raise InvalidInputError(
                    f"{self.where}: {where}: the first dimension of {name!r} is not the number of {noun}",
                    found=f"shape {tuple(array.shape)}",
                    expected=f"{count} rows",
                )
            if not is_supported(array.dtype):
                raise InvalidInputError(
                    f"{self.where}: {where}: the dtype of {name!r} cannot be stored",
                    found=str(array.dtype),
                    expected="booleans, integers or floating-point numbers of at most 64 bits",
                    remedy="Convert it, or remove it.",
                )

    def digest(self) -> str:
        """Return the SHA-256 of the content, by which a later call knows that it has been written."""
        digest = hashlib.sha256()

        def add(name: str, array: Array) -> None:
            digest.update(f"{name} {array.dtype.str} {array.shape};".encode())
            digest.update(np.ascontiguousarray(array).data)

        digest.update(repr([*self.num_nodes.items()]).encode())
        for kind, ends in self.edges.items():
            for end in ends:
                add(str(kind), end)
        for data in (self.node_data, self.edge_data):
            for type_name, arrays in data.items():
                for name, array in arrays.items():
                    add(f"{type_name}/{name}", array)
        for type_name, keys in self.node_ids.items():
            digest.update(f"{type_name} {keys.type};".encode())
            digest.update(repr(keys.to_pylist()).encode(errors="surrogatepass"))
        return digest.hexdigest()

    def ingest(
        self, destination: Store, *, graph_name: str | None = None, progress: Progress | None = None
    ) -> StageResult:
        name = graph_name or self.graph_name
        options = {"content": self.digest(), "graph_name": name}
        return array_task(lambda: self, destination, graph_name=name, options=options).run()

    def write_chunks(self, writer: GraphWriter) -> Counters:
        """Write the files of the graph, and ``metadata.json``."""
        for node_type, count in self.num_nodes.items():
            data = self.node_data.get(node_type, {})
            writer.add_nodes(node_type, count, _chunk_rows(data))
            _write_data(writer, node_type, data)
            if node_type in self.node_ids:
                table = pa.table({ORIG_ID: pa.array(np.arange(count)), "key": self.node_ids[node_type]})
                writer.write_keys(node_type, table.schema, [table])
        for kind, (src, dst) in self.edges.items():
            with writer.edge_file(kind) as file:
                for begin in range(0, len(src), BLOCK):
                    part = slice(begin, begin + BLOCK)
                    file.append(pa.table({SRC: src[part].astype(np.int64), DST: dst[part].astype(np.int64)}))
            writer.add_edges(kind, file)
            _write_data(writer, str(kind), self.edge_data.get(str(kind), {}), edges=True)
        writer.finish()
        return {
            "graph_name": writer.graph_name,
            "nodes": sum(self.num_nodes.values()),
            "edges": sum(len(src) for src, _ in self.edges.values()),
        }


def _chunk_rows(data: Mapping[str, Array]) -> int:
    return rows_of_chunk(max((array[:1].nbytes for array in data.values()), default=0) or 1)


def _write_data(
    writer: GraphWriter, type_name: str, data: Mapping[str, Array], *, edges: bool = False
) -> None:
    for name, array in data.items():
        with writer.feature_file(type_name, name, _chunk_rows(data), edges=edges) as file:
            file.append(array)
        writer.add_feature(type_name, name, file, edges=edges)


def array_task(
    load: Callable[[], ArrayGraph],
    destination: Store,
    *,
    graph_name: str,
    options: Mapping[str, Any],
    inputs: list[StoredObject] | None = None,
) -> Task:
    """Return the task ``ingest`` that writes the `ArrayGraph` which ``load`` returns."""

    def work(writer: ArtifactWriter) -> Counters:
        destination.delete([METADATA])
        return load().write_chunks(GraphWriter(writer.destination, graph_name, writer.wrote))

    return Task("ingest", destination, work, options=options, inputs=inputs or ())


def read_arrays(source: Store) -> ArrayGraph:
    """Read a whole graph in the chunked format into memory.

    Raises:
        InvalidInputError: A file is missing, damaged, or does not fit ``metadata.json``.

    Peak memory: the graph and its features.
    """
    metadata = load_metadata(source)
    ends: dict[EdgeType, list[tuple[Ids, Ids]]] = {kind: [] for kind in metadata.edge_types}
    reader = EdgeReader(source, metadata)
    for chunk in reader.chunks():
        of_type = ends[metadata.edge_types[chunk.edge_type_id]]
        of_type += [(block.src, block.dst) for block in reader.blocks(chunk)]
    data: dict[str, dict[str, dict[str, Array]]] = {"node": {}, "edge": {}}
    readers = feature_readers(source, metadata)
    for section, features in (("node", metadata.node_features), ("edge", metadata.edge_features)):
        for feature in features:
            of_name = data[section].setdefault(feature.type_name, {})
            rows = np.arange(readers[feature.key].rows, dtype=np.int64)
            of_name[feature.name] = np.asarray(readers[feature.key].take(rows))
    return ArrayGraph(
        where=source.uri,
        graph_name=metadata.graph_name,
        num_nodes=dict(zip(metadata.node_types, metadata.num_nodes, strict=True)),
        edges={kind: (_joined([s for s, _ in p]), _joined([d for _, d in p])) for kind, p in ends.items()},
        node_data=data["node"],
        edge_data=data["edge"],
    )


def _joined(blocks: list[Ids]) -> Ids:
    return np.concatenate(blocks) if blocks else np.empty(0, np.int64)


def numbers_only(where: str, value: Any) -> Array:
    """Return a tensor, an array or a list as an array of numbers or booleans.

    Raises:
        InvalidInputError: It is none, or NumPy has no such dtype.
    """
    found = f"{type(value).__name__}"
    try:
        if hasattr(value, "detach"):
            found = f"a tensor of {value.dtype}"
            value = value.detach().cpu()
            array: Array = value.numpy()
        else:
            array = np.asarray(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InvalidInputError(
            f"{where} cannot be stored",
            found=found,
            expected="a dense tensor of a dtype that NumPy has",
            remedy="Convert it, such as with .float() or .to_dense(), or remove it.",
        ) from error
    if array.dtype.kind not in KINDS:
        raise InvalidInputError(
            f"{where} is not numbers", found=found, expected="a tensor", remedy="Encode it, or remove it."
        )
    return array
