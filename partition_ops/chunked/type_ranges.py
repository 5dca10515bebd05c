"""The types of nodes, or of edges, laid end to end in one ID space."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from partition_ops.chunked.id_values import GivenIds, Ids, InvalidIdError, check_range, is_tensor, read_ids


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

    def ids_of(self, names: Any) -> GivenIds:
        """int64 type IDs of one name or of an array of names or type IDs."""
        if isinstance(names, str | tuple):
            return GivenIds(np.array(self.id_of(names), np.int64))
        if isinstance(names, list):
            names = [":".join(name) if isinstance(name, tuple) else name for name in names]
        array = None if is_tensor(names) else np.asarray(names)
        if array is not None and array.dtype.kind in "UTO":
            different, places = np.unique(array.astype(str), return_inverse=True)
            ids = np.array([self.id_of(str(name)) for name in different], np.int64)
            return GivenIds(ids[places].reshape(array.shape))
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
