"""Readers of the cached rows of other partitions, which the stage ``cache`` writes.

Only NumPy is imported, and torch when rows are read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
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
        self._paths = ids, rows
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

    def __reduce__(self) -> Any:
        return type(self), self._paths  # a worker of a data loader maps the rows itself

    def read(
        self,
        ids: torch.Tensor,
        others: Callable[[torch.Tensor], torch.Tensor],
        shape: Sequence[int],
        dtype: torch.dtype,
    ) -> torch.Tensor:
        """Return the rows of some IDs, of which those that are not cached are read in one call.

        Args:
            ids: (n,) int64, in any order; they may occur several times.
            others: Reads rows by their IDs. It is not called if all are cached.
            shape: The shape of a row.
            dtype: The dtype of the rows.

        Returns:
            (n, \\*shape). Peak memory: twice these rows, and 33 bytes an ID.
        """
        import torch

        cached, rows, missing = self.split(ids)
        if not len(cached):
            return others(ids)
        found = torch.empty((len(ids), *shape), dtype=dtype)
        found[cached] = rows.reshape(len(cached), *shape).to(dtype)
        if len(missing):
            found[missing] = others(ids[missing])
        return found

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

        read = self.tensor.__getitem__
        return self.rows.read(torch.as_tensor(ids), read, self.tensor.shape[1:], self.tensor.dtype)

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
        InvalidInputError: There is no such folder, or the files are damaged.
    """
    own = graph.get_partition_book().partid if part is None else part
    found = {}
    for ntype, name, rows in cached_features(Path(folder), own, layout.cached_nodes):
        data = graph.nodes[ntype].data
        data[name] = CachedTensor(data[name], rows)
        found[f"{ntype}/{name}"] = rows
    return found


def cached_features(
    folder: Path, part: int, ids: Callable[[int, str], str]
) -> Iterator[tuple[str, str, CachedRows]]:
    """Yield the node type, the name and the rows of each cached feature of a partition.

    Args:
        folder: Folder that ``fetch`` has filled, or the local root of an output.
        part: The partition.
        ids: `layout.cached_nodes` or `layout.cached_orig_nodes`, the kind of ID that rows are looked up by.

    Raises:
        InvalidInputError: There is no such folder, or the files are damaged.
    """
    if not folder.is_dir():
        raise InvalidInputError(
            f"There is no folder {folder}",
            expected="a folder that 'partition-ops fetch' has filled, or an output",
            remedy="Fetch the partition of this machine into it.",
        )
    root = folder / layout.cache_folder(part) / layout.CACHED_ROWS
    for path in sorted(root.glob("*/*.npy")):
        ntype = path.parent.name
        yield ntype, path.stem, CachedRows(folder / ids(part, ntype), path)
