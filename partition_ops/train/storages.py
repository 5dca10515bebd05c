"""Feature storages, from which DGL's data loaders fetch rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from partition_ops.chunked.id_converter import check_range
from partition_ops.system.dgl_import import import_dgl
from partition_ops.train.feature_rows import FeatureRows

_storages = import_dgl().storages
_Storage: Any = _storages.FeatureStorage
_ThreadedFuture: Any = _storages.ThreadedFuture


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
