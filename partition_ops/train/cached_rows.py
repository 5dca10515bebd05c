"""Readers of the cached rows of other partitions, which the stage ``cache`` writes.

Only NumPy is imported, and torch when rows are read.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from partition_ops.artifacts import layout
from partition_ops.errors import InvalidInputError

if TYPE_CHECKING:
    import torch

Ids = npt.NDArray[np.int64]


class CachedRows:
    """The cached rows of one feature.

    Attributes:
        found: Number of rows that were read from the cache.
        missed: Number of rows that were asked for and are not in it.
    """

    def __init__(self, ids: Path, rows: Path) -> None:
        """Open the files; the rows are mapped.

        Args:
            ids: File with the IDs of the rows, in any order.
            rows: File with the rows.

        Raises:
            InvalidInputError: The files do not belong to each other.
        """
        listed: Ids = np.load(ids, allow_pickle=False)
        self._rows = np.load(rows, mmap_mode="r", allow_pickle=False)
        if len(listed) != len(self._rows):
            raise InvalidInputError(
                f"{rows} does not have a row for each ID in {ids}",
                found=f"{len(self._rows)} rows",
                expected=f"{len(listed)}",
                remedy="Fetch the partition again.",
            )
        self._order = np.argsort(listed)
        self._ids = listed[self._order]
        self.found = self.missed = 0

    def __len__(self) -> int:
        return len(self._ids)

    def split(self, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Look up some IDs.

        Args:
            ids: (n,) int64, in any order; they may occur several times.

        Returns:
            (m,) int64, the positions of IDs that are cached; (m, ...) their rows; (n - m,) int64, the
            positions of the others. Peak memory: these, and 17 bytes an ID.
        """
        import torch

        wanted = ids.numpy()
        places = np.searchsorted(self._ids, wanted)
        places[places == len(self._ids)] = 0
        hits = self._ids[places] == wanted if len(self._ids) else np.zeros(len(wanted), np.bool_)
        cached, others = np.flatnonzero(hits), np.flatnonzero(~hits)
        rows = torch.from_numpy(self._rows[self._order[places[cached]]])
        self.found, self.missed = self.found + len(cached), self.missed + len(others)
        return torch.from_numpy(cached), rows, torch.from_numpy(others)


class CachedTensor:
    """A ``DistTensor``, or anything that gives rows by ID, with some rows in a cache.

    Attributes and methods other than reading rows are those of the tensor. It cannot be written to, because
    the cache would not change.

    Args:
        tensor: The tensor.
        rows: The cached rows, by the same IDs.
    """

    def __init__(self, tensor: Any, rows: CachedRows) -> None:
        self.tensor = tensor
        self.rows = rows

    def __getitem__(self, ids: Any) -> torch.Tensor:
        """Return the rows of some IDs; those that are not cached are read from the tensor in one call."""
        import torch

        wanted = torch.as_tensor(ids)
        cached, rows, others = self.rows.split(wanted)
        if not len(cached):
            whole: torch.Tensor = self.tensor[wanted]
            return whole
        found = torch.empty((len(wanted), *self.tensor.shape[1:]), dtype=self.tensor.dtype)
        found[cached] = rows.reshape(len(cached), *found.shape[1:]).to(found.dtype)
        if len(others):
            found[others] = self.tensor[wanted[others]]
        return found

    def __len__(self) -> int:
        return len(self.tensor)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.tensor, name)


def attach_cache(graph: Any, folder: Path | str, part: int | None = None) -> dict[str, CachedRows]:
    """Let the node features of a ``DistGraph`` read cached rows from a folder.

    ``graph.ndata[...]`` and ``graph.nodes[...].data[...]`` return a `CachedTensor` afterwards.

    Args:
        graph: The graph.
        folder: Folder that ``fetch`` has filled, or the local root of the output.
        part: The partition of this machine; by default the one that DGL says.

    Returns:
        The cached rows of each feature, by ``type/name``; none if the output was made without a cache.

    Raises:
        InvalidInputError: The files are damaged.
    """
    own = graph.get_partition_book().partid if part is None else part
    folder, found = Path(folder), {}
    for path in sorted((folder / layout.cache_folder(own) / layout.CACHED_ROWS).glob("*/*.npy")):
        ntype, name = path.parent.name, path.stem
        rows = CachedRows(folder / layout.cached_nodes(own, ntype), path)
        data = graph.nodes[ntype].data
        data[name] = CachedTensor(data[name], rows)
        found[f"{ntype}/{name}"] = rows
    return found
