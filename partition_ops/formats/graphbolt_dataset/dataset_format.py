"""The output format ``graphbolt-dataset``: the whole graph for ``dgl.graphbolt.OnDiskDataset`` of DGL 2.1.

The folder has what ``OnDiskDataset`` makes of a raw data set before it loads it: the graph as CSC matrix, one
NumPy file for each feature, and the sets of nodes and edges that masks of the input name. IDs are those of
the input. Edges that validation dropped are not in the graph; their features stay, so that rows keep IDs.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from typing import IO, Any, BinaryIO

import numpy as np
import numpy.typing as npt
from numpy.lib import format as npy

from partition_ops.artifacts.book import Book
from partition_ops.errors import InvalidInputError
from partition_ops.formats.columns import Array, Column, StoredArray, row_blocks
from partition_ops.formats.findings import Findings
from partition_ops.formats.format import GROUPS, FileWriter, Format, PartitionSize
from partition_ops.formats.graphbolt.graphbolt_format import numbered, write_sampling_graph
from partition_ops.formats.graphbolt_dataset.checks import CHECKS, check_dataset, load_dataset
from partition_ops.formats.neutral_partition import Partition, WholeGraph
from partition_ops.storage import Store
from partition_ops.storage.store import json_bytes

FOLDER = "preprocessed"  # the name that OnDiskDataset looks for
GRAPH = f"{FOLDER}/fused_csc_sampling_graph.pt"
EDGE_ID = "_ORIGINAL_EDGE_ID"  # GraphBolt's name
SETS = {"train": "train_set", "val": "validation_set", "valid": "validation_set", "test": "test_set"}
LABELS = ("label", "labels", "y")
WITH_NEGATIVES = "link_prediction_with_negatives"  # name of the task
WIDENED = {"u2": np.int32, "u4": np.int64}  # dtypes that torch 2.2 does not have
TYPE_DTYPES = (np.uint8, np.int16, np.int32)
NARROW = np.iinfo(np.int32).max
# Without this file, or with other hashes in it, OnDiskDataset removes the folder and makes it again, unless
# it is called with force_preprocess=False. With a text that is not JSON it raises an error instead.
HASHES = f"{FOLDER}/dataset_hash_value.txt"
NO_HASHES = b"This data set has no raw files: open it with OnDiskDataset(path, force_preprocess=False).\n"


class GraphBoltDataset(Format):
    """See `Format`; the folder is ``formats/graphbolt-dataset/``."""

    name = "graphbolt-dataset"
    checks = CHECKS
    has_graph = False
    readable = False
    of_partitions = False
    whole_bytes = (28, 4)

    def partition_files(self, partition: Partition) -> Mapping[str, FileWriter]:
        return {}

    def disk(self, size: PartitionSize, options: Mapping[str, Any]) -> int:
        return 8 * size.nodes + 9 * size.edges

    def whole_files(self, graph: WholeGraph) -> Mapping[str, FileWriter]:
        """Do what `Format.whole_files` describes.

        Peak memory of writing: 16 bytes a node, and 4 bytes an edge of the graph (8 with 2^31 or more). Disk
        below ``TMPDIR`` meanwhile: 12 bytes an edge.
        """
        dataset = _Dataset(graph)
        files = {GRAPH: FileWriter((), partial(_write_graph, graph))}
        for name, path in dataset.feature_files.items():
            files[path] = FileWriter((name,), partial(_write_feature, graph, name))
        for path, write in dataset.set_files().items():
            files[path] = FileWriter((), write)
        files[HASHES] = FileWriter((), lambda stream: stream.write(NO_HASHES))
        document = json_bytes(dataset.metadata())  # JSON is YAML
        files[f"{FOLDER}/metadata.yaml"] = FileWriter((), lambda stream: stream.write(document))
        return files

    def arrays(self, output: Store, part: int, *, group: str = "") -> Mapping[str, StoredArray]:
        raise NotImplementedError("a data set has no partitions")  # see `readable`

    def load(self, output: Store, part: int, groups: Collection[str] = GROUPS) -> dict[str, Array]:
        raise NotImplementedError("a data set has no partitions")

    def load_whole(self, output: Store, expected: Book) -> dict[str, Array]:
        return load_dataset(output, self.folder, expected)

    def check_config(self, findings: Findings, output: Store, expected: Book) -> None:
        """Check what the metadata describe, the dtypes of the graph, and the sets."""
        check_dataset(findings, output, self.folder, expected)


class _Dataset:
    """What the data set consists of.

    Attributes:
        feature_files: Paths of the files of features, by column name.
    """

    def __init__(self, graph: WholeGraph) -> None:
        self._graph = graph
        groups = ("node_features", "edge_features")
        names = [f"{group}/{name}" for group in groups for name in graph.names(group)]
        self.feature_files = {name: f"{FOLDER}/{name}.npy" for name in names}
        self._sets = [found for name in names if (found := _mask_of(name, names)) is not None]
        self._with_negatives = [(name, mask) for name in graph.negatives for mask in _used(graph, name)]

    def set_files(self) -> dict[str, Callable[[BinaryIO], object]]:
        files: dict[str, Callable[[BinaryIO], object]] = {}
        for mask, _, labels in self._sets:
            files[self._set_path(mask, "ids")] = partial(_write_ids, self._graph, mask)
            if labels is not None:
                files[self._set_path(mask, "labels")] = partial(_write_labels, self._graph, mask, labels)
        for edge_type, mask in self._with_negatives:
            for kind, write in (("ids", _write_both), ("labels", _write_whether_edges)):
                files[self._negatives_path(edge_type, mask, kind)] = partial(
                    write, self._graph, edge_type, mask
                )
        return files

    def metadata(self) -> dict[str, Any]:
        features = [
            {
                "domain": name.partition("_")[0],
                **self._type(name),
                "name": name.rpartition("/")[2],
                "format": "numpy",
                "in_memory": False,
                "path": path,
            }
            for name, path in self.feature_files.items()
        ]
        return {
            "dataset_name": self._graph.book.graph_name,
            "graph_topology": {"type": "FusedCSCSamplingGraph", "path": GRAPH},
            "feature_data": features,
            "tasks": [*self._tasks()],
            "include_original_edge_id": False,  # as OnDiskDataset asks by default; the graph has it
        }

    def _tasks(self) -> Iterator[dict[str, Any]]:
        """One for the masks of nodes, one for those of edges, and one for edges with their negatives."""
        for group, task, what in (
            ("node_features", "node_classification", "seed_nodes"),
            ("edge_features", "link_prediction", "node_pairs"),
        ):
            sets: dict[str, list[Any]] = {}
            for mask, name, labels in self._sets:
                if mask.startswith(f"{group}/"):
                    data = [(what, "ids"), *([("labels", "labels")] if labels else [])]
                    entry = [
                        {"name": n, "format": "numpy", "path": self._set_path(mask, kind)} for n, kind in data
                    ]
                    sets.setdefault(name, []).append({**self._type(mask), "data": entry})
            if sets:
                yield {"name": task, **sets}
        sets = {}
        for edge_type, mask in self._with_negatives:
            files = [
                {"name": name, "format": "numpy", "path": self._negatives_path(edge_type, mask, kind)}
                for name, kind in (("node_pairs", "ids"), ("labels", "labels"))
            ]
            name = SETS[mask.removesuffix("_mask")]
            sets.setdefault(name, []).append({**self._type(f"negatives/{edge_type}"), "data": files})
        if sets:
            yield {"name": WITH_NEGATIVES, **sets}

    def _negatives_path(self, edge_type: str, mask: str, kind: str) -> str:
        return self._set_path(f"negatives/{edge_type}/{mask}", kind)

    def _type(self, column: str) -> dict[str, str]:
        return {} if self._graph.book.is_homogeneous else {"type": column.split("/")[1]}

    def _set_path(self, mask: str, kind: str) -> str:
        return f"{FOLDER}/sets/{mask}-{kind}.npy"


def _mask_of(name: str, names: list[str]) -> tuple[str, str, str | None] | None:
    """Return a mask, the set that it names, and the labels beside it; None if it is no mask."""
    folder, _, feature = name.rpartition("/")
    kind, _, suffix = feature.partition("_")
    if suffix != "mask" or kind not in SETS:
        return None
    return name, SETS[kind], next((f"{folder}/{one}" for one in LABELS if f"{folder}/{one}" in names), None)


def _write_graph(graph: WholeGraph, stream: BinaryIO) -> None:
    from partition_ops.formats.edge_order import EdgeOrder  # brings numba

    # as OnDiskDataset sorts them
    node_types, edge_types = sorted(graph.num_nodes), sorted(graph.book.edge_types)
    offsets = np.cumsum([0, *(graph.num_nodes[name] for name in node_types)]).tolist()
    with tempfile.TemporaryFile() as file:
        edges = _SpooledEdges(file)
        for type_id, edge_type in enumerate(edge_types):
            src_type, _, dst_type = edge_type.split(":")
            src, dst = (offsets[node_types.index(name)] for name in (src_type, dst_type))
            for block in graph.edges(edge_type):
                edges.add(block.src + src, block.dst + dst, block.edge_ids, type_id)
        order = EdgeOrder(edges.column(1), offsets[-1])
        node, edge = (np.int32 if count <= NARROW else np.int64 for count in (offsets[-1], edges.count))
        tensors = {
            "indptr": Column.of(order.indptr.astype(edge, copy=False)),
            "indices": order.arrange(edges.column(0), node),
        }
        types: dict[str, Mapping[str, Column]] = {}
        if not graph.book.is_homogeneous:
            tensors["node_type_offset"] = Column.of(np.array(offsets, node))
            dtype = next(d for d in TYPE_DTYPES if len(edge_types) - 1 <= np.iinfo(d).max)
            tensors["type_per_edge"] = order.arrange(edges.types(), dtype)
            types = {"node_type_to_id": numbered(node_types), "edge_type_to_id": numbered(edge_types)}
        attributes = {EDGE_ID: order.arrange(edges.column(2), edge)}
        state = {"independent_tensors": tensors, **types, "edge_attributes": attributes}
        write_sampling_graph(stream, state)


class _SpooledEdges:
    """Edges in an unnamed file, so that they are parsed once and read several times.

    Attributes:
        count: How many there are.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._blocks: list[tuple[int, np.dtype[Any], int, int]] = []  # offset, dtype, edges, type ID
        self.count = 0

    def add(self, src: npt.NDArray[Any], dst: npt.NDArray[Any], ids: npt.NDArray[Any], type_id: int) -> None:
        if not len(ids):
            return
        rows = np.stack([src, dst, ids])
        dtype = np.dtype(np.int32 if rows.max() <= NARROW else np.int64)
        self._blocks.append((self._file.tell(), dtype, len(ids), type_id))
        self._file.write(rows.astype(dtype, copy=False).data)
        self.count += len(ids)

    def column(self, row: int) -> Column:
        """Return sources (0), destinations (1) or original IDs (2), int64."""

        def blocks() -> Iterator[Array]:
            self._file.flush()
            for offset, dtype, count, _ in self._blocks:
                place = offset + row * count * dtype.itemsize
                found = np.memmap(self._file, dtype, "r", place, (count,))
                for begin, end in row_blocks(count, 8 * count):
                    yield found[begin:end].astype(np.int64)

        return Column(np.dtype(np.int64), (self.count,), blocks)

    def types(self) -> Column:
        """Return the type IDs, int32."""
        pieces = [Column.constant(type_id, np.int32, count) for _, _, count, type_id in self._blocks]
        return Column.joined([Column.constant(0, np.int32, 0), *pieces])


def _write_feature(graph: WholeGraph, name: str, stream: BinaryIO) -> None:
    """Write a feature with at least two axes, as GraphBolt needs."""
    column = graph.columns[name]
    dtype = np.dtype(WIDENED.get(column.dtype.str[1:], column.dtype)).newbyteorder("<")
    if column.dtype.str[1:] == "u8":
        raise InvalidInputError(
            f"The feature {name.partition('/')[2]!r} cannot be in a data set of GraphBolt",
            found="uint64, which torch 2.2 does not have",
            expected="another dtype",
            remedy="Store it as int64, or leave graphbolt-dataset out of --formats.",
        )
    shape = column.shape if len(column.shape) > 1 else (*column.shape, 1)
    header = {"descr": npy.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    npy.write_array_header_1_0(stream, header)
    for block in column.blocks():
        stream.write(np.ascontiguousarray(block, dtype).data)


def _ids(graph: WholeGraph, mask: str) -> npt.NDArray[np.int64]:
    """Return the original IDs that a mask names, without dropped edges. Memory: 8 bytes for each."""
    first, found = 0, [np.empty(0, np.int64)]
    for block in graph.columns[mask].blocks():
        found.append(np.flatnonzero(block.reshape(len(block), -1).any(axis=1)) + first)
        first += len(block)
    ids = np.concatenate(found)
    if mask.startswith("edge_features/"):
        blocks = graph.edges(mask.split("/")[1])
        kept = [block.edge_ids[np.isin(block.edge_ids, ids)] for block in blocks]
        ids = np.concatenate([np.empty(0, np.int64), *kept])
    return ids


def _used(graph: WholeGraph, edge_type: str) -> list[str]:
    """Return the masks of the parts in which an edge type has negatives."""
    found: set[str] = set()
    for block in graph.negatives[edge_type]():
        found |= {name for name, mask in block.masks.items() if mask.any()}
    return sorted(found)


def _edge_ids(graph: WholeGraph, edge_type: str, mask: str) -> npt.NDArray[np.int64] | None:
    """Return the edges of a part: None, for all of them, for the training edges of a type without masks."""
    known = [name for name in graph.names("edge_features") if name.startswith(f"{edge_type}/")]
    masks = [f"edge_features/{name}" for name in known if _mask_of(name, known) is not None]
    mine = [name for name in masks if SETS[name.rpartition("/")[2].split("_")[0]] == SETS[mask.split("_")[0]]]
    if not masks and mask == "train_mask":
        return None
    return _ids(graph, mine[0]) if mine else np.empty(0, np.int64)


def _write_both(graph: WholeGraph, edge_type: str, mask: str, stream: BinaryIO) -> None:
    """Write the ends of the edges of a part, and then of its negatives, (n, 2)."""
    pairs = [_ends(graph, edge_type, _edge_ids(graph, edge_type, mask))]
    for block in graph.negatives[edge_type]():
        chosen = block.masks[mask]
        pairs.append(np.stack([block.src[chosen], block.dst[chosen]], axis=1))
    _write_nodes(graph, np.concatenate(pairs), stream)


def _write_whether_edges(graph: WholeGraph, edge_type: str, mask: str, stream: BinaryIO) -> None:
    """Write 1 for each edge of a part, and 0 for each of its negatives, (n,) float32."""
    edges = len(_ends(graph, edge_type, _edge_ids(graph, edge_type, mask)))
    negatives = sum(int(block.masks[mask].sum()) for block in graph.negatives[edge_type]())
    labels = np.repeat(np.array([1, 0], np.float32), [edges, negatives])
    npy.write_array(stream, labels, version=(1, 0), allow_pickle=False)


def _ends(graph: WholeGraph, edge_type: str, ids: npt.NDArray[np.int64] | None) -> npt.NDArray[np.int64]:
    """Return the ends of edges, or of all edges of a type, (n, 2) original type-wise IDs."""
    pairs = [np.empty((0, 2), np.int64)]
    for block in graph.edges(edge_type):
        chosen = np.isin(block.edge_ids, ids) if ids is not None else np.ones(len(block.src), np.bool_)
        pairs.append(np.stack([block.src[chosen], block.dst[chosen]], axis=1))
    return np.concatenate(pairs)


def _write_nodes(graph: WholeGraph, ids: npt.NDArray[np.int64], stream: BinaryIO) -> None:
    """Write IDs in the dtype of the graph's nodes."""
    dtype = np.int32 if sum(graph.num_nodes.values()) <= NARROW else np.int64
    npy.write_array(stream, ids.astype(dtype), version=(1, 0), allow_pickle=False)


def _write_ids(graph: WholeGraph, mask: str, stream: BinaryIO) -> None:
    """Write the nodes of a set, (n,), or the ends of its edges, (n, 2), in the dtype of the graph's nodes."""
    ids = _ids(graph, mask)
    if mask.startswith("edge_features/"):
        ids = _ends(graph, mask.split("/")[1], ids)
    _write_nodes(graph, ids, stream)


def _write_labels(graph: WholeGraph, mask: str, labels: str, stream: BinaryIO) -> None:
    """Write the labels of a set. Memory: the labels."""
    ids, first, found = _ids(graph, mask), 0, []
    for block in graph.columns[labels].blocks():
        here = ids[(ids >= first) & (ids < first + len(block))]
        found.append(block[here - first])
        first += len(block)
    column = graph.columns[labels]
    rows = np.concatenate([np.empty((0, *column.shape[1:]), column.dtype), *found])
    dtype = WIDENED.get(rows.dtype.str[1:], rows.dtype)
    npy.write_array(stream, rows.astype(dtype), version=(1, 0), allow_pickle=False)
