"""Type-wise new IDs by original IDs, as mapped arrays in the cache."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from partition_ops.artifacts import layout
from partition_ops.formats.dgl.array_places import read_file_at, tensor_places
from partition_ops.train.mapped import NPY_HEADER, MappedFile, ResidentLimit, create_npy, map_npy
from partition_ops.train.source import MISSING, Ids, OutputFiles

NODES, EDGES = "orig_nids.dgl", "orig_eids.dgl"


def new_ids(files: OutputFiles, name: str, sizes: list[int], resident: ResidentLimit) -> list[Ids]:
    """New IDs of all nodes, or of the edges of the open partitions, by type ID.

    Args:
        files: The output.
        name: `NODES` or `EDGES`: the file of each partition that has the original IDs.
        sizes: Number of original IDs of each type.
        resident: Watches over what is mapped.

    Returns:
        For each type (IDs,) int64, -1 where there is none; mapped. Disk: 8 bytes an ID.
        Peak memory while they are made: a few MiB, besides mapped files.
    """
    parts = range(files.book.num_partitions()) if name == NODES else files.parts
    keys = [layout.partition_file(part, name) for part in parts]
    names = (files.book.nodes if name == NODES else files.book.edges).names.names

    def make(folder: Path) -> None:
        vectors = [create_npy(folder / f"{t}.npy", size) for t, size in enumerate(sizes)]
        for vector in vectors:
            vector[:] = MISSING
        ranges = files.book.nodes if name == NODES else files.book.edges
        for part, key in zip(parts, keys, strict=True):
            with files.passing(key, folder) as path:
                places = tensor_places(read_file_at(path), files.output.uri_of(key))
                file = MappedFile(path)
                for type_id, vector in enumerate(vectors):
                    place = places[names[type_id]]
                    begin, end = ranges.bounds(part, type_id)
                    vector[file.array(place.offset, place.dtype, place.shape)] = np.arange(begin, end)

    size = files.scratch_bytes(keys) + sum(8 * n + NPY_HEADER for n in sizes)
    config = layout.partition_config(files.book.graph_name)
    entry = files.cache.get(files.name(name.partition(".")[0], [config, *keys], sizes), size, make)
    folder = files.hold(entry)
    return [map_npy(folder / f"{t}.npy", resident) for t in range(len(sizes))]
