"""Edge features by edge ID in one mapped array, as DGL's sampling kernels want probabilities."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from partition_ops.artifacts import layout
from partition_ops.errors import UsageError
from partition_ops.formats.dgl.array_places import read_file_at, tensor_places
from partition_ops.train.feature_files import EDGE_FILE, FeatureFiles
from partition_ops.train.id_vectors import EDGES
from partition_ops.train.mapped import NPY_HEADER, MappedFile, ResidentLimit, create_npy, map_npy
from partition_ops.train.source import IdKind, OutputFiles

KERNEL_DTYPES = ("float32", "float64", "uint8", "int8")
Column = npt.NDArray[Any]


def edge_columns(
    files: OutputFiles,
    features: FeatureFiles,
    name: str,
    ids: IdKind,
    num_ids: list[int],
    resident: ResidentLimit,
) -> list[Column | None]:
    """A scalar edge feature of every edge type that has it, by edge ID.

    Values of a dtype that DGL's kernels do not take become float32; a type where another has the feature as
    float64 gets float64 too.

    Returns:
        By edge type ID, (IDs,) array, mapped, or None. Disk: what the values take.
        Peak memory while it is made: a few MiB, besides mapped files.

    Raises:
        UsageError: No type has the feature, or it is no scalar.
    """
    names = files.book.edges.names.names
    have = [t for t in range(len(names)) if name in features.names(t)]
    rows = {t: features.rows(name, t) for t in have}
    for type_id, found in rows.items():
        if found.shape not in ((), (1,)):
            raise UsageError(
                f"The edge feature {name!r} of {names[type_id]!r} cannot be a probability or a mask",
                found=f"rows of shape {found.shape}",
                expected="one number for each edge",
            )
    if not have:
        raise UsageError(f"No edge type has the feature {name!r}", expected="a name in edge_data")
    dtype = _kernel_dtype([rows[t].dtype for t in have])

    def make(folder: Path) -> None:
        columns = {t: create_npy(folder / f"{t}.npy", num_ids[t], dtype) for t in have}
        for part in files.parts:
            _enter(files, part, name, ids, columns, folder)

    keys = [layout.partition_file(p, n) for p in files.parts for n in (EDGE_FILE, EDGES)]
    size = 2 * files.scratch_bytes(keys) + sum(num_ids[t] * dtype.itemsize + NPY_HEADER for t in have)
    config = layout.partition_config(files.book.graph_name)
    entry = files.cache.get(files.name("column", [config, *keys], name, ids, num_ids), size, make)
    folder = files.hold(entry)
    return [map_npy(folder / f"{t}.npy", resident) if t in have else None for t in range(len(names))]


def _kernel_dtype(dtypes: list[np.dtype[Any]]) -> np.dtype[Any]:
    """One that DGL's kernels take, the same for all types."""
    if len(set(dtypes)) == 1 and dtypes[0].name in KERNEL_DTYPES:
        return dtypes[0]
    return np.dtype(np.float64 if np.dtype(np.float64) in dtypes else np.float32)


def _enter(
    files: OutputFiles, part: int, name: str, ids: IdKind, columns: dict[int, Column], folder: Path
) -> None:
    """The values of one partition."""
    features, originals = (layout.partition_file(part, n) for n in (EDGE_FILE, EDGES))
    edges = files.book.edges
    for type_id, column in columns.items():
        type_name = edges.names.names[type_id]
        with files.passing(features, folder) as path:
            place = tensor_places(read_file_at(path), files.output.uri_of(features))[f"{type_name}/{name}"]
            values = MappedFile(path).array(place.offset, place.dtype, (place.shape[0],))
        if ids == "new":
            begin, end = edges.bounds(part, type_id)
            column[begin:end] = values
            continue
        with files.passing(originals, folder) as path:
            place = tensor_places(read_file_at(path), files.output.uri_of(originals))[type_name]
            column[MappedFile(path).array(place.offset, place.dtype, place.shape)] = values
