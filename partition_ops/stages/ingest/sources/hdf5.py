"""HDF5 files: each dataset that is a vector or a matrix is a column."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from partition_ops.errors import InvalidInputError
from partition_ops.stages.ingest.sources.npy import BLOCK_BYTES, ROW, type_of, values_of
from partition_ops.stages.ingest.table_source import FoundFile, TableSource
from partition_ops.system.extras import check_installed


class Hdf5Source(TableSource):
    name, title = "hdf5", "HDF5 (`pip install 'partition-ops[hdf5]'`)"
    suffixes = (".h5", ".hdf5")
    value_types = "`row`, a number from 0, and a column for each dataset of as many rows: as for NumPy"
    errors = (OSError, ValueError, RuntimeError)  # h5py's, for a file that is damaged

    def columns(self, file: FoundFile) -> list[str]:
        with self._datasets(file) as (_, datasets):
            return [ROW, *datasets]

    def read(self, file: FoundFile, columns: Sequence[str]) -> Path:
        with self._datasets(file) as (h5py, datasets):
            chosen = {name: datasets[name] for name in columns if name != ROW}
            counts = {name: len(one) for name, one in (chosen or datasets).items()}
            if len({*counts.values()}) > 1:
                raise InvalidInputError(
                    f"{self.about}the datasets of {file.name} are not columns of one table",
                    found=[f"{name}: {count:,} rows" for name, count in counts.items()],
                    expected="as many rows in each of them",
                    remedy="Use datasets with the same number of rows, or write the others to another file.",
                )
            texts = {name for name, one in chosen.items() if h5py.check_string_dtype(one.dtype)}
            for name, one in chosen.items():
                if one.ndim > 1 if name in texts else one.dtype.kind not in "biuf":
                    raise InvalidInputError(
                        f"{self.about}the dataset {name!r} of {file.name} is no column",
                        found=f"{one.dtype} of the shape {one.shape}",
                        expected="numbers of the shape (rows,) or (rows, width), or a vector of texts",
                    )
            types = {ROW: pa.int64(), **dict.fromkeys(texts, pa.string())}
            for name in chosen.keys() - texts:
                kind = type_of(chosen[name].dtype)
                types[name] = kind if chosen[name].ndim == 1 else pa.list_(kind)
            schema = pa.schema([(name, types[name]) for name in columns])
            count = next(iter(counts.values()), 0)
            return self.write_parquet(schema, _batches(chosen, texts, schema, count), columns)

    @contextmanager
    def _datasets(self, file: FoundFile) -> Iterator[tuple[Any, dict[str, Any]]]:
        """Open a file; yield h5py, and the datasets of one or two dimensions by their paths."""
        check_installed(f"{self.about}{file.name}, an HDF5 file,", "h5py")
        import h5py

        found: dict[str, Any] = {}

        def add(name: str, item: Any) -> None:
            if isinstance(item, h5py.Dataset) and item.ndim in (1, 2) and name != ROW:
                found[name] = item

        with h5py.File(file.path, "r") as opened:
            opened.visititems(add)
            yield h5py, found


def _batches(
    datasets: dict[str, Any], texts: set[str], schema: pa.Schema, count: int
) -> Iterator[pa.RecordBatch]:
    widths = [one.dtype.itemsize * int(np.prod(one.shape[1:])) for one in datasets.values()]
    step = max(BLOCK_BYTES // max(sum(widths), 8), 1)
    for begin in range(0, count, step):
        end = min(begin + step, count)
        columns = []
        for name in schema.names:
            if name == ROW:
                columns.append(pa.array(np.arange(begin, end)))
            elif name in texts:
                columns.append(pa.array(datasets[name].asstr("utf-8")[begin:end], pa.string()))
            else:
                columns.append(values_of(datasets[name][begin:end]))
        yield pa.RecordBatch.from_arrays(columns, schema=schema)


SOURCE = Hdf5Source
