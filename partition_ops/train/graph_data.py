"""Features as the data of a graph and of what is sampled from it, and as storages of DGL's data loaders.

Nothing is read before it is accessed: a block has the features of its nodes, and reads the rows of a feature
when ``block.srcdata[name]`` asks for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from types import SimpleNamespace
from typing import Any, ClassVar, Literal
from weakref import WeakSet

import numpy as np
import numpy.typing as npt
import torch

from partition_ops.artifacts.partition_book import PartitionBook
from partition_ops.chunked.id_converter import check_range
from partition_ops.errors import UsageError
from partition_ops.system.dgl_import import import_dgl
from partition_ops.train.features import FeatureRows, Features

dgl = import_dgl()
_Column: Any = dgl.frame.Column
_Storage: Any = dgl.storages.FeatureStorage
_ThreadedFuture: Any = dgl.storages.ThreadedFuture

Kind = Literal["node", "edge"]
Identity = tuple[Any, ...]


class GraphFeature:
    """A feature of one node type or edge type; rows are read when it is indexed, as from a ``DistTensor``.

    ``feature[ids]`` takes type-wise IDs, new or original as those of the graph: one, a list, a tensor, a
    slice, or a tensor of booleans. It returns a tensor: (n, ...), or one row for one ID. Functions of torch
    and NumPy take the feature as a tensor of all rows. Feature values cannot be assigned.

    Attributes:
        shape: Number of IDs, then the shape of a row.
        dtype: Dtype of torch; booleans of the input are uint8, as in all of DGL's partitions.
        device: The CPU.

    Raises:
        InvalidIdError: On access: there is no such ID, or its partition is not open.

    Peak memory: the rows of an access, twice.
    """

    device = torch.device("cpu")

    def __init__(self, data: GraphData, kind: Kind, type_id: int, name: str) -> None:
        self._source = (data.identity, kind, type_id, name)
        self._features = data.features[kind]
        dtype, shape = self._features.row(name, type_id)
        self.shape = torch.Size((self._features.num_ids[type_id], *shape))
        self.dtype = torch.from_numpy(np.empty(0, dtype)).dtype

    @cached_property
    def _rows(self) -> FeatureRows:
        _, _, type_id, name = self._source
        return self._features.rows(name, type_id)

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return f"GraphFeature({self._source[3]!r}, shape={tuple(self.shape)}, dtype={self.dtype})"

    def __getitem__(self, ids: Any) -> Any:
        if isinstance(ids, slice):
            ids = torch.arange(len(self))[ids]
        ids = torch.as_tensor(ids)
        if ids.dtype == torch.bool:
            if len(ids) != len(self):
                raise UsageError("The mask does not fit the feature", found=len(ids), expected=len(self))
            ids = ids.nonzero().reshape(-1)
        wanted = ids.reshape(-1).to(device="cpu", dtype=torch.int64)
        rows = torch.from_numpy(self._rows.take(wanted.numpy()))
        self._features.resident.check()
        return rows.reshape((*ids.shape, *self.shape[1:]))

    def contiguous(self) -> Any:
        """Return all rows as a tensor, for DGL's kernels."""
        return self[:]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.asarray(self[:].numpy(), dtype)

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call a function of torch with all rows."""
        return function(*_as_tensors(args), **_as_tensors(kwargs or {}))

    def __reduce__(self) -> Any:
        return _feature_of, self._source


def _as_tensors(value: Any) -> Any:
    if isinstance(value, GraphFeature):
        return value[:]
    if isinstance(value, list | tuple):
        return type(value)(map(_as_tensors, value))
    return {k: _as_tensors(v) for k, v in value.items()} if isinstance(value, dict) else value


def _feature_of(identity: Identity, kind: Kind, type_id: int, name: str) -> GraphFeature:
    """Return a feature of a graph that is open in this process."""
    data = next((data for data in GraphData.open if data.identity == identity), None)
    if data is None:
        raise UsageError(
            f"The feature {name!r} belongs to a PartitionedGraph that this process has not opened",
            remedy="Read the feature where the graph is open, or pass the graph to the process first.",
        )
    return data.feature(kind, type_id, name)


class FeatureColumn(_Column):  # type: ignore[misc]  # dgl has no annotations
    """A column of DGL's frames whose rows are read on the first access; until then, it is pickled by name.

    DGL slices it like its own columns: only the IDs are sliced.
    """

    storage: Any  # a `GraphFeature`, or the rows as a tensor

    @property
    def data(self) -> Any:
        """Return the rows."""
        if isinstance(self.storage, GraphFeature):
            index = self._flat_index()
            self.storage = self.storage[:] if index is None else self.storage[index]
            self.index = None
        return _Column.data.fget(self)

    @data.setter
    def data(self, values: Any) -> None:
        _Column.data.fset(self, values)

    def clone(self) -> FeatureColumn:
        """Return a copy that shares the rows."""
        return FeatureColumn(self.storage, self.scheme, self.index, self.device, self.deferred_dtype)

    def subcolumn(self, rowids: Any) -> FeatureColumn:
        """Return some rows, which are not read."""
        sliced = super().subcolumn(rowids)
        return FeatureColumn(
            sliced.storage, sliced.scheme, sliced.index, sliced.device, sliced.deferred_dtype
        )

    def astype(self, new_dtype: Any) -> Any:
        """Return a column of another dtype; reads the rows."""
        column = self.clone()
        return column if column.data.dtype == new_dtype else _Column(column.data.to(new_dtype))

    def __reduce_ex__(self, protocol: Any) -> Any:
        if not isinstance(self.storage, GraphFeature):
            return super().__reduce_ex__(protocol)
        index = self._flat_index()
        return FeatureColumn, (self.storage, self.scheme, index, self.device, self.deferred_dtype)

    def _flat_index(self) -> Any:
        return self.index.flatten() if isinstance(self.index, dgl.frame._LazyIndex) else self.index


class GraphData:
    """The features of an open graph.

    Args:
        book: The partition book.
        nodes: The features of the nodes.
        edges: The features of the edges.
        identity: The output, the partitioning and the IDs: graphs with equal ones have the same features.

    Attributes:
        types: Type IDs by type, a name or a triple, of nodes and of edges.
        open: The data of the graphs that are open in this process. Blocks that a worker of a data loader made
            find theirs by its identity.
    """

    open: ClassVar[WeakSet[GraphData]] = WeakSet()

    def __init__(self, book: PartitionBook, nodes: Features, edges: Features, identity: Identity) -> None:
        self.features: dict[Kind, Features] = {"node": nodes, "edge": edges}
        types: dict[Kind, list[Any]] = {"node": book.ntypes, "edge": book.canonical_etypes}
        self.types = {kind: {name: i for i, name in enumerate(names)} for kind, names in types.items()}
        self.identity = identity
        self._found: dict[tuple[Kind, int, str], GraphFeature] = {}
        GraphData.open.add(self)

    def feature(self, kind: Kind, type_id: int, name: str) -> GraphFeature:
        """Return a feature.

        Raises:
            UsageError: The type has no such feature.
        """
        key = (kind, type_id, name)
        if key not in self._found:
            self._found[key] = GraphFeature(self, kind, type_id, name)
        return self._found[key]

    def attach(self, graph: Any) -> Any:
        """Give a ``DGLGraph`` with all nodes and edges the features as data, and return it."""
        for ntype, type_id in self.types["node"].items():
            graph._node_frames[graph.get_ntype_id(ntype)] = self._frame("node", type_id)
        for etype, type_id in self.types["edge"].items():
            graph._edge_frames[graph.get_etype_id(etype)] = self._frame("edge", type_id)
        return graph

    def _frame(self, kind: Kind, type_id: int) -> Any:
        names = self.features[kind].names(type_id)
        columns = {name: FeatureColumn(self.feature(kind, type_id, name)) for name in names}
        return dgl.frame.Frame(columns, self.features[kind].num_ids[type_id])


class TypeData(Mapping[str, Any]):
    """The features of one type by name; of several types, dicts of features by type.

    Args:
        data: The features of the graph.
        kind: Nodes or edges.
        types: Type ID by type, a name or a triple.
    """

    def __init__(self, data: GraphData, kind: Kind, types: Mapping[Any, int]) -> None:
        self._data, self._kind, self._types = data, kind, types

    def __getitem__(self, name: str) -> Any:
        having = {t: i for t, i in self._types.items() if name in self._data.features[self._kind].names(i)}
        if not having:
            raise KeyError(name)
        found = {key: self._data.feature(self._kind, type_id, name) for key, type_id in having.items()}
        return found if len(self._types) > 1 else next(iter(found.values()))

    def __setitem__(self, name: str, values: Any) -> None:
        raise UsageError(
            "Features of a PartitionedGraph cannot be set",
            found=name,
            remedy="Add the feature to the input and partition it again, or return it from get_node_storage"
            " or get_edge_storage of a subclass.",
        )

    def __iter__(self) -> Iterator[str]:
        names = [n for i in self._types.values() for n in self._data.features[self._kind].names(i)]
        return iter(dict.fromkeys(names))

    def __len__(self) -> int:
        return len(list(iter(self)))

    def __repr__(self) -> str:
        return repr(dict(self))


class TypeViews:
    """``graph.edges``: ``graph.edges[type].data`` has the features of a type.

    Args:
        data: The features of the graph.
        kind: Nodes or edges.
        canonical: Returns the key in `GraphData.types` of a type as users write it.
    """

    def __init__(self, data: GraphData, kind: Kind, canonical: Callable[[Any], Any]) -> None:
        self._data, self._kind, self._canonical = data, kind, canonical

    def __getitem__(self, type_name: Any) -> SimpleNamespace:
        key = self._canonical(type_name)
        type_id = self._data.types[self._kind][key]
        return SimpleNamespace(data=TypeData(self._data, self._kind, {key: type_id}))


class NodeViews(TypeViews):
    """``graph.nodes``: as `TypeViews`, and ``graph.nodes(type)`` has all IDs of a type."""

    def __call__(self, type_name: Any = None) -> Any:
        """Return all type-wise IDs of a type, (n,) int64 tensor."""
        type_id = self._data.types["node"][self._canonical(type_name)]
        return torch.arange(self._data.features["node"].num_ids[type_id])


class MemmapStorage(_Storage):  # type: ignore[misc]  # dgl has no annotations
    """Rows of a feature, read when they are fetched: the storage of DGL's note on custom graphs.

    Args:
        rows: The feature: an array of any shape, such as a ``numpy.memmap``, or a feature of a
            `PartitionedGraph`. If that reads by range requests, every fetch waits for the network.
    """

    def __init__(self, rows: FeatureRows | npt.NDArray[Any]) -> None:
        self.rows = rows

    def fetch(self, indices: Any, device: Any = "cpu", pin_memory: bool | None = False, **_: Any) -> Any:
        """Return the rows of some IDs.

        Args:
            indices: (n,) tensor or list; rows of the array, or type-wise IDs, new or original as those of the
                graph.
            device: Device of the result.
            pin_memory: Copy through pinned memory, if the device is a GPU.

        Returns:
            (n, ...) tensor of the feature's dtype; booleans of the input are uint8, as in all of DGL's
            partitions.

        Raises:
            InvalidIdError: There is no such ID, or its partition is not open.

        Peak memory: twice the result.
        """
        return self._fetch(indices, device, bool(pin_memory))

    def _fetch(self, indices: Any, device: Any, pin_memory: bool) -> Any:
        ids = torch.as_tensor(indices, dtype=torch.int64).cpu().numpy()
        if isinstance(self.rows, FeatureRows):
            rows = self.rows.take(ids)
        else:  # not numpy.take, which flattens
            check_range(ids, len(self.rows), "The row")
            rows = np.asarray(self.rows[ids])
        found = torch.from_numpy(rows)
        if pin_memory:
            found = found.pin_memory()
        return found.to(device, non_blocking=pin_memory)


class AsyncMemmapStorage(MemmapStorage):
    """Reads rows in a thread of its own: a batch waits for the slowest of its features, not for their sum."""

    def fetch(self, indices: Any, device: Any = "cpu", pin_memory: bool | None = False, **_: Any) -> Any:
        """Fetch like `MemmapStorage.fetch`, but return a future; its method ``wait`` returns the rows."""
        return _Future(self._fetch, (indices, device, bool(pin_memory)))


class _Future(_ThreadedFuture):  # type: ignore[misc]
    """DGL's future, which loses errors, with errors: `wait` raises them."""

    def __init__(self, target: Callable[..., Any], args: tuple[Any, ...]) -> None:
        self._error: BaseException | None = None

        def guarded(*arguments: Any) -> Any:
            try:
                return target(*arguments)
            except BaseException as error:
                self._error = error
                return None

        super().__init__(guarded, args)

    def wait(self) -> Any:
        """Return the result, or raise the error of the thread."""
        result = super().wait()
        if self._error is not None:
            raise self._error
        return result
