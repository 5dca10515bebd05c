"""Features between scatter and gather, for inputs that would be slow to read once for each partition."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from partition_ops.artifacts import layout
from partition_ops.artifacts.tasks import ArtifactWriter
from partition_ops.chunked.metadata import Feature, GraphMetadata
from partition_ops.errors import InvalidInputError
from partition_ops.formats.columns import Column
from partition_ops.stages.convert.buckets import checksums_of, fetch_if_quicker
from partition_ops.stages.convert.context import Conversion
from partition_ops.stages.convert.cost import READS_WORTH_IT
from partition_ops.stages.convert.options import MEMORY_SHARE
from partition_ops.storage import Store
from partition_ops.system.memory import drop_pages, planned_memory
from partition_ops.system.parallel import cores, map_in_threads

INDEX_VERSION = 1
SEGMENT_BYTES = 32 << 20
LEAST_BYTES = 1 << 10
Entry = dict[str, Any]


def scattered_chunks(conversion: Conversion) -> list[tuple[int, int]]:
    """Return the chunks of features to scatter: position among the node features, and chunk.

    A feature is scattered if it would have to be fetched or decoded more than `READS_WORTH_IT` times, and if
    the metadata say which rows are in which file and no file is empty. Each process that gathers fetches a
    feature on S3, and each partition decodes one that is not ``.npy``.
    """
    if conversion.num_parts <= READS_WORTH_IT:
        return []
    fetched_once = conversion.gathering_processes <= READS_WORTH_IT
    found = []
    for place, feature in enumerate(conversion.metadata.node_features):
        at_hand = fetched_once or all(map(conversion.source.is_local, feature.data.files))
        mapped = at_hand and feature.data.format.name == "numpy"
        counts = _rows_per_chunk(conversion.metadata, feature)
        if not mapped and counts and all(counts) and len(counts) == len(feature.data.files):
            found += [(place, chunk) for chunk in range(len(counts))]
    return found


def _rows_per_chunk(metadata: GraphMetadata, feature: Feature) -> tuple[int, ...] | None:
    return metadata.num_nodes_per_chunk[metadata.node_type_id(feature.type_name)]


def scatter_features(
    conversion: Conversion, task: ArtifactWriter, group: int, chunks: Sequence[tuple[int, int]]
) -> int:
    """Write ``features.bin`` and ``features.json`` of one group; return the number of rows.

    Each file is read once. A segment has consecutive rows by partition, in the order of the new IDs.

    Peak memory: three segments of 32 MiB, and a row group of a Parquet file or a whole CSV file.
    """
    entries: list[Entry] = []
    with task.create(layout.bucket(group, layout.ROWS)) as new, new.path.open("wb") as stream:
        new.keep_copy = True
        for place, chunk in chunks:
            feature = conversion.metadata.node_features[place]
            entries.append(_scatter_chunk(conversion, feature, chunk, stream))
            entries[-1] |= {"feature": place, "chunk": chunk}
    task.write_json(layout.bucket(group, layout.ROW_INDEX), {"version": INDEX_VERSION, "chunks": entries})
    return sum(sum(map(sum, entry["counts"])) for entry in entries)


def _scatter_chunk(conversion: Conversion, feature: Feature, chunk: int, stream: BinaryIO) -> Entry:
    reader = conversion.features[feature.key]
    rows_per_chunk = _rows_per_chunk(conversion.metadata, feature) or ()
    type_id = conversion.metadata.node_type_id(feature.type_name)
    begin = conversion.metadata.node_offsets[type_id] + sum(rows_per_chunk[:chunk])
    end = begin + rows_per_chunk[chunk]
    parts = conversion.order.assignment.parts
    counts, checksums, dtype, shape = [], [], np.dtype(np.float32), ()
    limit = planned_memory(conversion.config.memory, MEMORY_SHARE)
    segment = max(LEAST_BYTES, min(SEGMENT_BYTES, limit // (8 * cores())))
    for block in reader.chunk_blocks(chunk, segment):
        dtype, shape = block.dtype.newbyteorder("<"), block.shape[1:]
        owners = parts[begin : min(begin + len(block), end)].astype(np.uint16)
        if len(owners) < len(block):
            break
        order = np.argsort(owners, kind="stable")
        rows = np.take(block, order, axis=0).astype(dtype, copy=False)
        stream.write(rows.data.cast("B"))
        of_parts = np.bincount(owners, minlength=conversion.num_parts)
        counts.append(of_parts.tolist())
        checksums.append(None if conversion.one_process else checksums_of(rows, of_parts))
        begin += len(block)
        drop_pages(block)
    if begin != end:
        raise InvalidInputError(
            f"{reader.where(chunk)}: the number of rows is not what metadata.json says",
            expected=f"{rows_per_chunk[chunk]}",
        )
    return {"dtype": dtype.str, "shape": list(shape), "counts": counts, "checksums": checksums}


@dataclass(frozen=True)
class _Piece:
    key: str
    begin: int
    rows: int
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    crc32: int | None


class FeatureBuckets:
    """Features that have been scattered.

    Args:
        store: Root of the run.
        groups: Groups of the plan that hold features.
        part: Number of the partition that is gathered.
    """

    def __init__(self, store: Store, groups: Sequence[int], part: int) -> None:
        self._store = store
        self._pieces: dict[int, list[_Piece]] = {}
        self._sizes: dict[str, int] = {}
        for group in groups:
            begin = 0
            for entry in store.read_json(layout.bucket(group, layout.ROW_INDEX))["chunks"]:
                dtype, shape = np.dtype(entry["dtype"]), tuple(entry["shape"])
                row = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
                pieces = self._pieces.setdefault(entry["feature"], [])
                for counts, checksums in zip(entry["counts"], entry["checksums"], strict=True):
                    place = layout.bucket(group, layout.ROWS), begin + sum(counts[:part]) * row
                    crc32 = None if checksums is None else checksums[part]
                    pieces.append(_Piece(*place, counts[part], dtype, shape, crc32))
                    begin += sum(counts) * row
            self._sizes[layout.bucket(group, layout.ROWS)] = begin
        read = (piece.key for pieces in self._pieces.values() for piece in pieces if piece.rows)
        self._ranges = Counter(read)

    def column(self, place: int, feature: Feature, rows: int) -> Column | None:
        """Return the partition's rows of a node feature; None if it has not been scattered.

        Raises:
            InvalidInputError: The chunks of the feature have different dtypes or shapes.
        """
        if place not in self._pieces:
            return None
        pieces = self._pieces[place]
        shapes = {piece.shape for piece in pieces}
        dtypes = {piece.dtype for piece in pieces}
        if len(shapes) > 1 or (len(dtypes) > 1 and feature.data.format.name != "csv"):
            raise InvalidInputError(
                f"The chunks of the feature {feature.key!r} differ in dtype or shape",
                found=", ".join(
                    sorted(f"{piece.dtype} {piece.shape}" for piece in pieces)[:: len(pieces) - 1]
                ),
            )
        dtype, shape = np.result_type(*dtypes), shapes.pop()

        def blocks() -> Iterator[npt.NDArray[Any]]:
            for found in map_in_threads(self._read, [piece for piece in pieces if piece.rows], workers=4):
                yield found.astype(dtype, copy=False)

        return Column(dtype.newbyteorder("="), (rows, *shape), blocks)

    def _read(self, piece: _Piece) -> npt.NDArray[Any]:
        fetch_if_quicker(self._store, piece.key, self._sizes[piece.key], self._ranges[piece.key])
        size = piece.rows * int(np.prod(piece.shape, dtype=np.int64)) * piece.dtype.itemsize
        data = self._store.read_range(piece.key, piece.begin, piece.begin + size, crc32=piece.crc32)
        return np.frombuffer(data, piece.dtype).reshape(piece.rows, *piece.shape)
