"""`IDConverter` between heterogeneous and homogeneous IDs of the input graph, and the classes it is made of.

A heterogeneous ID is a type and a type-wise ID. Homogeneous IDs number all nodes, or edges, type by type in
the order of ``metadata.json``. Source: DGL guide, chapter 7.5, without the error of its sample code, which
assigns the first ID of each type to the type before it. For the IDs after partitioning see `PartitionBook`.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from partition_ops.chunked.metadata import GraphMetadata, read_counts
from partition_ops.errors import InvalidInputError, one_of
from partition_ops.system.json_documents import check_document

Ids = npt.NDArray[np.int64]
LARGEST = 2**63 - 1
WHERE = "metadata.json"


class IDConverter:
    """Converter between heterogeneous and homogeneous IDs of the input graph.

    Every method takes an ID, or a list, NumPy array or torch tensor of IDs of any shape, and returns the same
    form: an int, an int64 array, or an int64 tensor on the same device. For several IDs, types are returned
    as int64 type IDs, because tensors cannot hold names; `id2ntype` and `id2etype` convert them to names.

    Pass a type as its name or its type ID. An edge type may also be a triple, or its relation if only one
    edge type has it. For IDs of several types, pass an array of types.

    Attributes:
        node_type: Node types by type ID.
        edge_type: Edge types by type ID, ``src:rel:dst``.
        ntype2id_map: Type ID of each node type.
        etype2id_map: Type ID of each edge type.
        num_nodes: Number of nodes by type ID.
        num_edges: Number of edges by type ID.
        nid_offset: (node types + 1,) int64: type t has the homogeneous node IDs from ``nid_offset[t]`` up to
            ``nid_offset[t + 1]``.
        eid_offset: (edge types + 1,) int64, the same for edges.

    Args:
        metadata: The result of `load_metadata`, or the JSON object of ``metadata.json``, of which only the
            types and their counts are used.

    Raises:
        InvalidInputError: The constructor raises it if the JSON object is not valid.
        InvalidIdError: Any method raises it, as a ValueError too, if a type is unknown or an ID is out of
            range; the message has type, value and range.

    Peak memory: a few arrays of the length of the argument.
    """

    def __init__(self, metadata: GraphMetadata | Mapping[str, Any]) -> None:
        if isinstance(metadata, GraphMetadata):
            node_types, num_nodes = metadata.node_types, metadata.num_nodes
            edge_types, num_edges = tuple(map(str, metadata.edge_types)), metadata.num_edges
        else:
            # parts that do not concern IDs may be missing
            check_document({"graph_name": "graph", "edges": {}, **metadata}, "metadata", where=WHERE)
            node_types, edge_types = tuple(metadata["node_type"]), tuple(metadata["edge_type"])
            num_nodes = read_counts(metadata, "nodes", node_types, WHERE)[1]
            num_edges = read_counts(metadata, "edges", edge_types, WHERE)[1]
        self._nodes = TypeRanges(TypeNames("node", node_types), num_nodes)
        self._edges = TypeRanges(TypeNames("edge", edge_types), num_edges)
        self.node_type, self.edge_type = list(node_types), list(edge_types)
        self.ntype2id_map = {name: type_id for type_id, name in enumerate(self.node_type)}
        self.etype2id_map = {name: type_id for type_id, name in enumerate(self.edge_type)}
        self.num_nodes, self.num_edges = list(num_nodes), list(num_edges)
        self.nid_offset, self.eid_offset = self._nodes.starts, self._edges.starts

    def ntype2id(self, ntype: Any) -> Any:
        """Return the type ID of a node type."""
        parsed = self._nodes.names.ids_of(ntype)
        return parsed.in_same_form(parsed.values)

    def etype2id(self, etype: Any) -> Any:
        """Return the type ID of an edge type."""
        parsed = self._edges.names.ids_of(etype)
        return parsed.in_same_form(parsed.values)

    def id2ntype(self, type_id: Any) -> Any:
        """Return the name of a node type, or a NumPy array of names."""
        return self._nodes.names.names_of(type_id)

    def id2etype(self, type_id: Any) -> Any:
        """Return the name of an edge type, ``src:rel:dst``, or a NumPy array of names."""
        return self._edges.names.names_of(type_id)

    def nid_het2hom(self, ntype: Any, nid: Any) -> Any:
        """Return the homogeneous IDs of nodes, from their types and type-wise IDs."""
        return self._nodes.to_homogeneous(ntype, nid)

    def nid_hom2het(self, nid: Any) -> tuple[Any, Any]:
        """Return types and type-wise IDs of nodes: ``("paper", 3)`` for one ID, two arrays for several."""
        return self._nodes.to_typed(nid)

    def eid_het2hom(self, etype: Any, eid: Any) -> Any:
        """Return the homogeneous IDs of edges, from their types and type-wise IDs."""
        return self._edges.to_homogeneous(etype, eid)

    def eid_hom2het(self, eid: Any) -> tuple[Any, Any]:
        """Return types and type-wise IDs of edges: ``("a:r:b", 3)`` for one ID, two arrays for several."""
        return self._edges.to_typed(eid)


class TypeNames:
    """Names of the node types or edge types, and their type IDs.

    Args:
        kind: ``node`` or ``edge``, for messages.
        names: Names by type ID; those of edge types are ``src:rel:dst``.
    """

    def __init__(self, kind: str, names: Sequence[str]) -> None:
        self.kind = kind
        self.names = tuple(names)
        self._ids = {name: type_id for type_id, name in enumerate(self.names)}

    def __len__(self) -> int:
        return len(self.names)

    def id_of(self, name: Any) -> int:
        """Return the type ID of a name, triple, relation or type ID."""
        if isinstance(name, tuple) and len(name) == 3:
            name = ":".join(name)
        if isinstance(name, str):
            found = self._ids.get(name)
            return self._by_relation(name) if found is None else found
        parsed = read_ids(name, f"The {self.kind} type ID").values
        check_range(parsed, len(self), f"The {self.kind} type ID")
        return int(parsed)

    def name_of(self, name: Any) -> str:
        """Return the full name of a name, triple, relation or type ID."""
        return self.names[self.id_of(name)]

    def ids_of(self, names: Any) -> IdValues:
        """Return int64 type IDs of a type, or of an array of names or type IDs."""
        if isinstance(names, str | tuple):
            return IdValues(np.array(self.id_of(names), np.int64))
        if isinstance(names, list):
            names = [":".join(name) if isinstance(name, tuple) else name for name in names]
        array = None if is_tensor(names) else np.asarray(names)
        if array is not None and array.dtype.kind in "UTO":
            different, places = np.unique(array.astype(str), return_inverse=True)
            ids = np.array([self.id_of(str(name)) for name in different], np.int64)
            return IdValues(ids[places].reshape(array.shape))
        parsed = read_ids(names, f"The {self.kind} type ID")
        check_range(parsed.values, len(self), f"The {self.kind} type ID")
        return parsed

    def names_of(self, type_ids: Any) -> Any:
        """Return the name of a type ID, or a NumPy array of names."""
        parsed = self.ids_of(type_ids).values
        names = np.array(self.names)[parsed]
        return names if parsed.ndim else str(names)

    def _by_relation(self, name: str) -> int:
        """Return the type ID of an edge type by its relation."""
        found = [i for i, known in enumerate(self.names) if self.kind == "edge" and _relation(known) == name]
        if len(found) == 1:
            return found[0]
        several = f"; several have the relation {name!r}" if found else ""
        raise InvalidIdError(
            f"There is no {self.kind} type {name!r}{several}",
            found=repr(name),
            expected=one_of(self.names),
        )


class TypeRanges:
    """Ranges of homogeneous IDs by type: type t has the IDs from ``starts[t]`` up to ``starts[t + 1]``.

    Args:
        names: The types.
        counts: Number of nodes or edges by type ID; a type may be empty.
    """

    def __init__(self, names: TypeNames, counts: Sequence[int]) -> None:
        self.names = names
        self.starts: Ids = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)]).astype(np.int64)

    def to_homogeneous(self, types: Any, ids: Any) -> Any:
        """Convert type-wise to homogeneous IDs; ``types`` is one type, or one for each ID."""
        kind = self.names.kind
        type_ids, parsed = self.names.ids_of(types), read_ids(ids, f"The type-wise {kind} ID")
        try:
            each, values = np.broadcast_arrays(type_ids.values, parsed.values)
        except ValueError as error:
            raise InvalidIdError(
                f"The shapes of {kind} types and {kind} IDs do not match",
                found=f"types of shape {type_ids.values.shape}, IDs of shape {parsed.values.shape}",
                expected="one type, or one for each ID",
            ) from error
        self._check(each, values)
        source = parsed if parsed.device is not None or type_ids.device is None else type_ids
        return source.in_same_form(np.asarray(self.starts[each] + values))

    def to_typed(self, ids: Any) -> tuple[Any, Any]:
        """Convert homogeneous to type-wise IDs; types are a name for one ID, type IDs for several."""
        parsed = read_ids(ids, f"The homogeneous {self.names.kind} ID")
        check_range(parsed.values, int(self.starts[-1]), f"The homogeneous {self.names.kind} ID")
        # the first type whose range ends after the ID, which skips empty types
        type_ids = np.searchsorted(self.starts[1:], parsed.values, side="right")
        typed = parsed.in_same_form(np.asarray(parsed.values - self.starts[type_ids]))
        if parsed.values.ndim == 0:
            return self.names.names[int(type_ids)], typed
        return parsed.in_same_form(type_ids.astype(np.int64, copy=False)), typed

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
            expected=f"0 to {count - 1}" if count else "no ID: the type is empty",
        )


def _relation(edge_type: str) -> str:
    parts = edge_type.split(":")
    return parts[1] if len(parts) == 3 else edge_type


class InvalidIdError(InvalidInputError, ValueError):
    """An ID is out of range or not an integer, or its type is unknown."""


@dataclass(frozen=True)
class IdValues:
    """IDs as an array, and the form in which the caller passed them."""

    values: Ids  # int64 of the caller's shape, without dimensions for a single ID
    device: Any = None  # the torch device of a tensor; None for other forms

    def in_same_form(self, result: npt.NDArray[Any]) -> Any:
        """Return a result in the caller's form: an int, an array, or a tensor on the same device."""
        if self.device is not None:
            return sys.modules["torch"].from_numpy(np.ascontiguousarray(result)).to(self.device)
        return result if result.ndim else int(result)


def read_ids(ids: Any, what: str) -> IdValues:
    """Read IDs in any form.

    torch is not imported here: if the caller passes a tensor, it has been imported already.

    Args:
        ids: An integer, or a list, NumPy array, torch tensor or other array of integers, of any shape.
        what: Description of the IDs, for messages.

    Raises:
        InvalidIdError: They are not integers, or one exceeds 64 bits.
    """
    tensor = is_tensor(ids)
    values = ids.detach().cpu().numpy() if tensor else np.asarray(ids)
    if values.size == 0 and not tensor:  # NumPy reads an empty list as floating-point numbers
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
    """Check that IDs are inside ``[first, first + count)``.

    Raises:
        InvalidIdError: An ID is outside; the message has the first one and its position.
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
        expected=f"{first} to {end - 1}" if count else "no ID: the graph has no such nodes or edges",
    )
