"""Heterogeneous and homogeneous IDs of the input graph.

A heterogeneous ID is a type and a type-wise ID; the homogeneous ID lays the types end to end, in the order
of ``metadata.json``. Source: DGL guide, chapter 7.5; its sample code gives the first ID of each type to
the type before it, which is not done here. For the IDs after partitioning see `PartitionBook`.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from partition_ops.chunked.metadata import GraphMetadata, read_counts
from partition_ops.errors import InvalidInputError
from partition_ops.system.json_documents import check_document

Ids = npt.NDArray[np.int64]
LARGEST = 2**63 - 1
WHERE = "metadata.json"


class IDConverter:
    """Converts between the heterogeneous and the homogeneous IDs of the input graph.

    Every method takes one ID, or many as a list, a NumPy array or a torch tensor of any shape, and answers
    in the same form: an int, an int64 array, or an int64 tensor on the same device. In an array, types are
    type IDs (int64), since tensors hold no names; `id2ntype` and `id2etype` turn them into names.

    A type is given by its name or its type ID, an edge type also as a triple, or by its relation where only
    one edge type has it. Where IDs of several types are mixed in one array, give an array of types.

    Args:
        metadata: ``metadata.json``, parsed by `load_metadata` or just as JSON. Of JSON, only the types and
            their counts are looked at.

    Raises:
        InvalidInputError: From the constructor: the JSON is not as its format says.
        InvalidIdError: From every method, and a ValueError too: a type is unknown, or an ID is outside the
            range of its type; with type, value and range.

    Peak memory: some arrays as long as the argument.
    """

    def __init__(self, metadata: GraphMetadata | Mapping[str, Any]) -> None:
        if isinstance(metadata, GraphMetadata):
            node_types, num_nodes = metadata.node_types, metadata.num_nodes
            edge_types, num_edges = tuple(map(str, metadata.edge_types)), metadata.num_edges
        else:
            # the parts that are not about IDs may be missing
            check_document({"graph_name": "graph", "edges": {}, **metadata}, "metadata", where=WHERE)
            node_types, edge_types = tuple(metadata["node_type"]), tuple(metadata["edge_type"])
            num_nodes = read_counts(metadata, "nodes", node_types, WHERE)[1]
            num_edges = read_counts(metadata, "edges", edge_types, WHERE)[1]
        self._nodes = TypeRanges(TypeNames("node", node_types), num_nodes)
        self._edges = TypeRanges(TypeNames("edge", edge_types), num_edges)

    def ntype2id(self, ntype: Any) -> Any:
        """Type ID of a node type."""
        given = self._nodes.names.ids_of(ntype)
        return given.like(given.values)

    def etype2id(self, etype: Any) -> Any:
        """Type ID of an edge type."""
        given = self._edges.names.ids_of(etype)
        return given.like(given.values)

    def id2ntype(self, type_id: Any) -> Any:
        """Name of a node type; a NumPy array of names for many."""
        return self._nodes.names.names_of(type_id)

    def id2etype(self, type_id: Any) -> Any:
        """Name of an edge type, ``src:rel:dst``; a NumPy array of names for many."""
        return self._edges.names.names_of(type_id)

    def nid_het2hom(self, ntype: Any, nid: Any) -> Any:
        """Homogeneous IDs of nodes, from their types and type-wise IDs."""
        return self._nodes.to_homogeneous(ntype, nid)

    def nid_hom2het(self, nid: Any) -> tuple[Any, Any]:
        """Type and type-wise ID of nodes: ``("paper", 3)`` for one, type IDs and type-wise IDs for many."""
        return self._nodes.to_typed(nid)

    def eid_het2hom(self, etype: Any, eid: Any) -> Any:
        """Homogeneous IDs of edges, from their types and type-wise IDs."""
        return self._edges.to_homogeneous(etype, eid)

    def eid_hom2het(self, eid: Any) -> tuple[Any, Any]:
        """Type and type-wise ID of edges: ``("a:r:b", 3)`` for one, type IDs and type-wise IDs for many."""
        return self._edges.to_typed(eid)


class TypeNames:
    """Names of the node types or edge types, and their type IDs.

    Args:
        kind: ``node`` or ``edge``, for messages.
        names: By type ID. Edge types are ``src:rel:dst``; they are also known as a triple, and by their
            relation alone where only one type has it.
    """

    def __init__(self, kind: str, names: Sequence[str]) -> None:
        self.kind = kind
        self.names = tuple(names)
        self._ids = {name: type_id for type_id, name in enumerate(self.names)}

    def __len__(self) -> int:
        return len(self.names)

    def id_of(self, name: Any) -> int:
        """Type ID of a name, a triple, or a type ID."""
        if isinstance(name, tuple) and len(name) == 3:
            name = ":".join(name)
        if isinstance(name, str):
            found = self._ids.get(name)
            return self._by_relation(name) if found is None else found
        given = read_ids(name, f"The {self.kind} type ID").values
        check_range(given, len(self), f"The {self.kind} type ID")
        return int(given)

    def name_of(self, name: Any) -> str:
        """Full name of a type that is given in any way."""
        return self.names[self.id_of(name)]

    def ids_of(self, names: Any) -> IdValues:
        """int64 type IDs of one name or of an array of names or type IDs."""
        if isinstance(names, str | tuple):
            return IdValues(np.array(self.id_of(names), np.int64))
        if isinstance(names, list):
            names = [":".join(name) if isinstance(name, tuple) else name for name in names]
        array = None if is_tensor(names) else np.asarray(names)
        if array is not None and array.dtype.kind in "UTO":
            different, places = np.unique(array.astype(str), return_inverse=True)
            ids = np.array([self.id_of(str(name)) for name in different], np.int64)
            return IdValues(ids[places].reshape(array.shape))
        given = read_ids(names, f"The {self.kind} type ID")
        check_range(given.values, len(self), f"The {self.kind} type ID")
        return given

    def names_of(self, type_ids: Any) -> Any:
        """The name of one type ID, or a NumPy array of names."""
        given = self.ids_of(type_ids).values
        names = np.array(self.names)[given]
        return names if given.ndim else str(names)

    def _by_relation(self, name: str) -> int:
        """Type ID of an edge type that is given by its relation."""
        found = [i for i, known in enumerate(self.names) if self.kind == "edge" and _relation(known) == name]
        if len(found) == 1:
            return found[0]
        several = f"; several have the relation {name!r}" if found else ""
        raise InvalidIdError(
            f"There is no {self.kind} type {name!r}{several}",
            found=repr(name),
            expected="one of " + ", ".join(map(repr, self.names)),
        )


class TypeRanges:
    """Conversion between type-wise and homogeneous IDs of one graph.

    Type t has the homogeneous IDs from ``starts[t]`` to ``starts[t + 1]``, without the last.

    Args:
        names: The types.
        counts: Number of nodes or edges by type ID; a type may be empty.
    """

    def __init__(self, names: TypeNames, counts: Sequence[int]) -> None:
        self.names = names
        self.starts: Ids = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)]).astype(np.int64)

    def to_homogeneous(self, types: Any, ids: Any) -> Any:
        """Homogeneous IDs of type-wise ones; ``types`` is one type for all, or as many as there are IDs."""
        kind = self.names.kind
        type_ids, given = self.names.ids_of(types), read_ids(ids, f"The type-wise {kind} ID")
        try:
            each, values = np.broadcast_arrays(type_ids.values, given.values)
        except ValueError as error:
            raise InvalidIdError(
                f"{kind} types and {kind} IDs do not go together",
                found=f"types of shape {type_ids.values.shape}, IDs of shape {given.values.shape}",
                expected="one type, or one for each ID",
            ) from error
        self._check(each, values)
        source = given if given.device is not None or type_ids.device is None else type_ids
        return source.like(np.asarray(self.starts[each] + values))

    def to_typed(self, ids: Any) -> tuple[Any, Any]:
        """Type and type-wise ID of homogeneous IDs: the type's name for one ID, type IDs for many."""
        given = read_ids(ids, f"The homogeneous {self.names.kind} ID")
        check_range(given.values, int(self.starts[-1]), f"The homogeneous {self.names.kind} ID")
        # the first type that ends behind the ID: an empty type ends where it begins, and is passed over
        type_ids = np.searchsorted(self.starts[1:], given.values, side="right")
        typed = given.like(np.asarray(given.values - self.starts[type_ids]))
        if given.values.ndim == 0:
            return self.names.names[int(type_ids)], typed
        return given.like(type_ids.astype(np.int64, copy=False)), typed

    def _check(self, type_ids: npt.NDArray[np.int64], ids: npt.NDArray[np.int64]) -> None:
        counts = np.diff(self.starts)[type_ids]
        wrong = np.flatnonzero(((ids < 0) | (ids >= counts)).reshape(-1))
        if len(wrong) == 0:
            return
        position = int(wrong[0])
        type_id = int(type_ids.reshape(-1)[position])
        name, count = self.names.names[type_id], int(self.starts[type_id + 1] - self.starts[type_id])
        at = f" at position {position}" if ids.ndim else ""
        raise InvalidIdError(
            f"The ID of {self.names.kind} type {name!r}{at} is out of range",
            found=int(ids.reshape(-1)[position]),
            expected=f"0 to {count - 1}" if count else "no ID at all: the type is empty",
        )


def _relation(edge_type: str) -> str:
    parts = edge_type.split(":")
    return parts[1] if len(parts) == 3 else edge_type


class InvalidIdError(InvalidInputError, ValueError):
    """An ID is outside its range, is no integer, or its type is unknown."""


@dataclass(frozen=True)
class IdValues:
    """IDs as NumPy sees them.

    Attributes:
        values: int64, of the shape that was given; without dimensions for a single ID.
        device: The torch device that they came from; None for what is not a tensor.
    """

    values: Ids
    device: Any = None

    def like(self, result: npt.NDArray[Any]) -> Any:
        """A result in the form of what was given: an int, an array, or a tensor on the same device."""
        if self.device is not None:
            return sys.modules["torch"].from_numpy(np.ascontiguousarray(result)).to(self.device)
        return result if result.ndim else int(result)


def read_ids(ids: Any, what: str) -> IdValues:
    """Take IDs in any form.

    Args:
        ids: One ID, or many of any shape.
        what: What they are, for messages.

    Raises:
        InvalidIdError: They are no integers, or one does not fit 64 bits.
    """
    tensor = is_tensor(ids)
    values = ids.detach().cpu().numpy() if tensor else np.asarray(ids)
    if values.size == 0 and not tensor:  # NumPy takes an empty list for floating-point numbers
        values = values.astype(np.int64)
    if values.dtype.kind not in "iu":
        raise InvalidIdError(
            f"{what} cannot be read",
            found=f"{type(ids).__name__} of {values.dtype}",
            expected="an integer of at most 64 bits, or an array of them",
        )
    if values.dtype == np.uint64:
        check_range(values, LARGEST + 1, what)
    scalar_tensor = tensor and values.ndim == 0
    device = ids.device if tensor and not scalar_tensor else None
    return IdValues(values.astype(np.int64, copy=False), device)


def is_tensor(value: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def check_range(values: npt.NDArray[Any], count: int, what: str, *, first: int = 0) -> None:
    """Refuse IDs outside ``[first, first + count)``.

    Raises:
        InvalidIdError: With the first wrong ID and its position.
    """
    end = first + count
    if values.size == 0 or (values.min() >= first and values.max() < end):
        return
    flat = values.reshape(-1)
    position = int(np.flatnonzero((flat < first) | (flat >= end))[0])
    at = f" at position {position}" if values.ndim else ""
    raise InvalidIdError(
        f"{what} is out of range{at}",
        found=int(flat[position]),
        expected=f"{first} to {end - 1}" if count else "no ID at all: there are none of this kind",
    )
