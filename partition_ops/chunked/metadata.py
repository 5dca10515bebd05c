"""``metadata.json`` of DGL's chunked graph format: `GraphMetadata`, and functions that parse and check it.

Format: DGL guide, chapter 7.1, and ``tools/chunk_graph.py``. The counts may be given by chunk
(``num_nodes_per_chunk``, ``num_edges_per_chunk``: a list per type) or by type (``num_nodes_per_type``,
``num_edges_per_type``: a number per type).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate, pairwise
from pathlib import PurePosixPath
from typing import Any

from partition_ops.chunked.names import (
    LONGEST_NAME,
    EdgeType,
    check_graph_name,
    check_names,
    read_edge_type,
    shortened,
)
from partition_ops.errors import InvalidInputError, UsageError, one_of
from partition_ops.storage import Store
from partition_ops.storage.store import check_key
from partition_ops.system.json_documents import check_document, invalid_json_error, schema_document

Counts = tuple[tuple[tuple[int, ...] | None, ...], tuple[int, ...]]
METADATA = "metadata.json"
DELIMITER = re.compile(r"[\t !#-*,/:-@\[-^`{-~]")
LONGEST_PART = 255
REVERSED = "reverse_edges"
NEGATIVES = "negatives"
PREVIOUS_IDS, PREVIOUS_ID = "previous_ids", "previous_id"  # of a graph whose nodes were renumbered
# features that reverse edges do not have
OF_ONE_DIRECTION = re.compile(r"label|(train|val|test)_mask|(label|train_mask|val_mask|test_mask)_\w+")


@dataclass(frozen=True)
class FileFormat:
    """Format of the files of an edge type or a feature."""

    name: str  # ``csv``, ``parquet`` or ``numpy``
    delimiter: str = " "  # delimiter of CSV files, one character
    header: bool | None = None  # whether the first line of a CSV file names the columns; None means detect it


@dataclass(frozen=True)
class FileSet:
    """Format and keys of the chunks of an edge type or a feature, in the order of their IDs."""

    format: FileFormat  # format of all files
    files: tuple[str, ...]  # keys of the files
    # how many of the files of edges have sources before destinations. The others are files of other edges,
    # which are read with both ends exchanged. None for all
    forward: int | None = None

    def is_reversed(self, index: int) -> bool:
        """Return whether the edges of a file are read with both ends exchanged."""
        return self.forward is not None and index >= self.forward


@dataclass(frozen=True)
class Feature:
    """A feature of one node type or edge type."""

    type_name: str  # the node type, or the edge type as ``src:rel:dst``
    name: str  # name of the feature
    data: FileSet  # its files

    @property
    def key(self) -> str:
        """Key of the feature in DGL's feature files: ``type/name``."""
        return f"{self.type_name}/{self.name}"


@dataclass(frozen=True)
class GraphMetadata:
    """A heterogeneous graph as its ``metadata.json`` describes it.

    Type IDs follow the order of the lists. Counts by chunk are None if the file has only totals.
    """

    graph_name: str  # name of the graph in DGL
    node_types: tuple[str, ...]  # names, by node type ID
    edge_types: tuple[EdgeType, ...]  # canonical edge types, by edge type ID
    num_nodes: tuple[int, ...]  # nodes by node type ID
    num_edges: tuple[int, ...]  # edges by edge type ID
    num_nodes_per_chunk: tuple[tuple[int, ...] | None, ...]  # nodes of each chunk, by node type ID
    num_edges_per_chunk: tuple[tuple[int, ...] | None, ...]  # edges of each chunk, by edge type ID
    edges: tuple[FileSet, ...]  # edge files by edge type ID
    node_features: tuple[Feature, ...]  # features of nodes, in the order of the file
    edge_features: tuple[Feature, ...]  # features of edges, in the order of the file
    # by edge type, the type of its reverse edges, if ``metadata.json`` names it
    reverse_edges: Mapping[str, str] = field(default_factory=dict)
    # by edge type, the files of pairs that are no edges
    negatives: Mapping[str, FileSet] = field(default_factory=dict)

    @cached_property
    def node_offsets(self) -> tuple[int, ...]:
        """First homogeneous node ID of each type, and the number of all nodes at the end."""
        return tuple(accumulate(self.num_nodes, initial=0))

    @property
    def node_ranges(self) -> list[tuple[int, int, int]]:
        """The homogeneous IDs of each type: the first, the one after the last, and the type ID."""
        return [(begin, end, number) for number, (begin, end) in enumerate(pairwise(self.node_offsets))]

    @cached_property
    def edge_offsets(self) -> tuple[int, ...]:
        """First homogeneous edge ID of each type, and the number of all edges at the end."""
        return tuple(accumulate(self.num_edges, initial=0))

    @property
    def is_homogeneous(self) -> bool:
        """Whether there are one node type and one edge type."""
        return len(self.node_types) == 1 and len(self.edge_types) == 1

    def node_type_id(self, node_type: str) -> int:
        return self.node_types.index(node_type)

    def edge_type_id(self, edge_type: str) -> int:
        return [str(known) for known in self.edge_types].index(edge_type)

    def files(self) -> tuple[str, ...]:
        """Return every data file of the graph once, in the order of the metadata."""
        sets = [*self.edges, *(f.data for f in (*self.node_features, *self.edge_features))]
        sets += self.negatives.values()
        return tuple(dict.fromkeys(file for data in sets for file in data.files))


def load_metadata(source: Store, *, graph_name: str | None = None) -> GraphMetadata:
    """Read and check the ``metadata.json`` at the root of a graph.

    Args:
        source: The graph's root.
        graph_name: Overrides the name in the file.

    Raises:
        InvalidInputError: The file is missing, is not JSON, or is not valid.
        UsageError: ``graph_name`` is not a valid name.
    """
    where = source.uri_of(METADATA)
    document = read_metadata_document(source)
    try:
        metadata = parse_metadata(document, where=where, root=source.uri)
    except RecursionError as error:
        raise InvalidInputError(f"{where} is nested too deeply", expected="lists of lists at most") from error
    if graph_name is None or graph_name == "":
        return metadata
    try:
        return replace(metadata, graph_name=check_graph_name(graph_name, "--graph-name"))
    except InvalidInputError as error:
        raise UsageError(error.problem, found=error.found, expected=error.expected) from error


def parse_metadata(document: Any, *, where: str, root: str = "") -> GraphMetadata:
    """Check a parsed ``metadata.json`` and turn it into `GraphMetadata`.

    Args:
        document: The JSON document.
        where: Its URI, for messages.
        root: Root of the graph; absolute paths below it are made relative.

    Raises:
        InvalidInputError: The document is not valid; the message names the place.
    """
    check_document(document, "metadata", where=where)
    node_types = tuple(document["node_type"])
    edge_types = tuple(read_edge_type(name, node_types, where) for name in document["edge_type"])
    check_names(node_types, "node type", where)
    check_names([str(edge_type) for edge_type in edge_types], "edge type", where)
    nodes_per_chunk, num_nodes = read_counts(document, "nodes", node_types, where)
    edges_per_chunk, num_edges = read_counts(document, "edges", [str(e) for e in edge_types], where)
    reader = _FileSets(where, root)
    metadata = GraphMetadata(
        graph_name=check_graph_name(document["graph_name"], where),
        node_types=node_types,
        edge_types=edge_types,
        num_nodes=num_nodes,
        num_edges=num_edges,
        num_nodes_per_chunk=nodes_per_chunk,
        num_edges_per_chunk=edges_per_chunk,
        edges=tuple(reader.edges(document, str(edge_type)) for edge_type in edge_types),
        node_features=tuple(reader.features(document, "node_data", node_types)),
        edge_features=tuple(reader.features(document, "edge_data", [str(e) for e in edge_types])),
        negatives=reader.negatives(document, [str(e) for e in edge_types]),
    )
    for name, reverse in document.get(REVERSED, {}).items():
        metadata = _with_reverse(metadata, name, reverse, f"{where}: {REVERSED!r}")
    return metadata


def _with_reverse(metadata: GraphMetadata, name: str, reverse: str, where: str) -> GraphMetadata:
    """Return a graph with the reverse edges of a type: edge e is the reverse of edge e of the other type.

    Reverse edges are read from the files of the edges, and have their features, without label and masks. In a
    type that is its own reverse, they follow the edges. A type that has edges of its own keeps them.

    Raises:
        InvalidInputError: There is no such edge type, or the other one cannot have its reverse edges.
    """
    known = [str(one) for one in metadata.edge_types]
    if name not in known:
        raise InvalidInputError(
            f"{where} names an unknown edge type", found=repr(name), expected=one_of(known)
        )
    kind, other = metadata.edge_types[known.index(name)], read_edge_type(reverse, metadata.node_types, where)
    if (kind.src, kind.dst) != (other.dst, other.src):
        raise InvalidInputError(
            f"{where}: edges of {reverse!r} cannot be the reverse of {name!r}",
            found=f"{other.src!r} to {other.dst!r}",
            expected=f"{kind.dst!r} to {kind.src!r}",
        )
    index, pairs = known.index(name), {**metadata.reverse_edges, name: reverse, reverse: name}
    counts, edges = metadata.num_edges[index], metadata.edges[index]
    chunks = metadata.num_edges_per_chunk[index]
    if reverse in known and reverse != name:
        if metadata.num_edges[known.index(reverse)] != counts:
            raise InvalidInputError(
                f"{where}: {name!r} and {reverse!r} are not each other's reverse",
                found=f"{counts} and {metadata.num_edges[known.index(reverse)]} edges",
                expected="as many edges, edge e of one type the reverse of edge e of the other",
            )
        return replace(metadata, reverse_edges=pairs)
    own = [feature for feature in metadata.edge_features if feature.type_name == name]
    if reverse != name:
        check_names([*known, reverse], "edge type", where)
        shared = (replace(one, type_name=reverse) for one in own if not OF_ONE_DIRECTION.fullmatch(one.name))
        return replace(
            metadata,
            edge_types=(*metadata.edge_types, other),
            num_edges=(*metadata.num_edges, counts),
            num_edges_per_chunk=(*metadata.num_edges_per_chunk, chunks),
            edges=(*metadata.edges, replace(edges, forward=0)),
            edge_features=(*metadata.edge_features, *shared),
            reverse_edges=pairs,
        )
    masks = [one.name for one in own if OF_ONE_DIRECTION.fullmatch(one.name)]
    if masks:
        raise InvalidInputError(
            f"{where}: edges and reverse edges of one type would share {masks[0]!r}",
            found=f"{masks[0]!r} of {name!r}",
            expected="an edge type without label and masks, or a type of their own for reverse edges",
        )

    def twice(values: tuple[Any, ...], more: Any) -> tuple[Any, ...]:
        return (*values[:index], more, *values[index + 1 :])

    doubled = [
        replace(one, data=replace(one.data, files=one.data.files * 2)) if one in own else one
        for one in metadata.edge_features
    ]
    return replace(
        metadata,
        num_edges=twice(metadata.num_edges, 2 * counts),
        num_edges_per_chunk=twice(metadata.num_edges_per_chunk, chunks and chunks * 2),
        edges=twice(metadata.edges, replace(edges, files=edges.files * 2, forward=len(edges.files))),
        edge_features=tuple(doubled),
        reverse_edges=pairs,
    )


def reverse_names(document: Mapping[str, Any]) -> dict[str, str]:
    """Return, for each edge type of a ``metadata.json`` without reverse edges, the type that they get.

    It is ``dst:rev_rel:src``, and the type itself in a homogeneous graph, which has one edge type.
    """
    found = dict(document.get(REVERSED, {}))
    have = {*found, *found.values()}
    for name in document["edge_type"]:
        src, rel, dst = str(name).split(":")
        if name not in have:
            found[name] = name if name == "_N:_E:_N" else f"{dst}:rev_{rel}:{src}"
    return found


class _FileSets:
    """Parser for the edge and feature files in a metadata document."""

    def __init__(self, where: str, root: str) -> None:
        self.where = where
        self.root = root

    def edges(self, document: Mapping[str, Any], edge_type: str) -> FileSet:
        specs = document["edges"]
        if edge_type not in specs:
            raise InvalidInputError(
                f"{self.where}: 'edges' has no files for edge type {edge_type!r}",
                found="files for " + (", ".join(map(repr, specs)) or "no edge type"),
            )
        return self._file_set(specs[edge_type], f"edge type {edge_type!r}", ("csv", "parquet"))

    def negatives(self, document: Mapping[str, Any], edge_types: Sequence[str]) -> dict[str, FileSet]:
        found = {}
        for name, spec in document.get(NEGATIVES, {}).items():
            if name not in edge_types:
                raise InvalidInputError(
                    f"{self.where}: {NEGATIVES!r} of an unknown edge type",
                    found=repr(name),
                    expected=one_of(edge_types),
                )
            found[name] = self._file_set(spec, f"{NEGATIVES} of {name!r}", ("parquet",))
        return found

    def features(self, document: Mapping[str, Any], key: str, types: Sequence[str]) -> list[Feature]:
        found = []
        for type_name, specs in document.get(key, {}).items():
            if type_name not in types:
                raise InvalidInputError(
                    f"{self.where}: {key!r} has features of an unknown type",
                    found=repr(type_name),
                    expected=one_of(types),
                )
            for name, spec in specs.items():
                long = len(name.encode(errors="replace")) > LONGEST_NAME
                if long or "/" in name or not name.strip() or not name.isprintable():
                    raise InvalidInputError(
                        f"{self.where}: {key!r} of {type_name!r} has a feature name that cannot be stored",
                        found=shortened(name),
                        expected=f"a printable name of at most {LONGEST_NAME} bytes without '/'",
                        remedy="Rename it in metadata.json.",
                    )
                what = f"feature {name!r} of {type_name!r}"
                data = self._file_set(spec, what, ("numpy", "parquet", "csv"))
                found.append(Feature(type_name, name, data))
        return found

    def _file_set(self, spec: Mapping[str, Any], what: str, readable: Sequence[str]) -> FileSet:
        format_spec = spec["format"]
        name, delimiter = format_spec["name"], format_spec.get("delimiter", " ")
        if name not in readable:
            raise InvalidInputError(
                f"{self.where}: {what} has an unsupported format",
                found=repr(name),
                expected=one_of(readable),
            )
        if not DELIMITER.fullmatch(delimiter):
            raise InvalidInputError(
                f"{self.where}: {what} has an unsupported delimiter",
                found=repr(delimiter),
                expected="one ASCII character other than letters, digits, quotes, signs, dots, line breaks",
            )
        files = tuple(self._key(path, what) for path in spec["data"])
        return FileSet(FileFormat(name, delimiter, format_spec.get("header")), files)

    def _key(self, path: str, what: str) -> str:
        plain = path.removeprefix("./")
        absolute = PurePosixPath(path)
        if path.startswith("/") and self.root.startswith("/") and absolute.is_relative_to(self.root):
            plain = str(absolute.relative_to(self.root))
        longest = max(len(part.encode(errors="replace")) for part in plain.split("/"))
        if longest > LONGEST_PART or not plain.isprintable():
            raise InvalidInputError(
                f"{self.where}: {what} has a path that file systems do not support",
                found=repr(path[:100]),
                expected=f"printable characters, at most {LONGEST_PART} bytes between two slashes",
            )
        try:
            return check_key(plain)
        except InvalidInputError as error:
            raise InvalidInputError(
                f"{self.where}: {what} has a path that leaves the folder of metadata.json",
                found=repr(path),
                expected="a path relative to metadata.json and below its folder",
            ) from error


def read_counts(document: Mapping[str, Any], what: str, types: Sequence[str], where: str) -> Counts:
    """Return the counts by chunk (None if unknown) and in total, by type ID.

    Args:
        document: A parsed ``metadata.json``.
        what: ``nodes`` or ``edges``.
        types: Names by type ID.
        where: URI of the document, for messages.

    Raises:
        InvalidInputError: Counts are missing, their number is wrong, or they contradict each other.
    """
    chunk_key, type_key = f"num_{what}_per_chunk", f"num_{what}_per_type"
    if chunk_key not in document and type_key not in document:
        raise InvalidInputError(
            f"{where}: no counts of {what}", expected=f"{chunk_key!r} or {type_key!r} with an entry per type"
        )
    for key in (chunk_key, type_key):
        if key in document and len(document[key]) != len(types):
            raise InvalidInputError(
                f"{where}: {key!r} has the wrong length",
                found=f"{len(document[key])} entries",
                expected=f"{len(types)}, one for each type",
            )
    per_chunk = (
        tuple(_integers(c) for c in document[chunk_key]) if chunk_key in document else (None,) * len(types)
    )
    totals = _integers(document[type_key]) if type_key in document else tuple(sum(c or ()) for c in per_chunk)
    for name, chunks, total in zip(types, per_chunk, totals, strict=True):
        if chunks is not None and sum(chunks) != total:
            raise InvalidInputError(
                f"{where}: {chunk_key!r} and {type_key!r} contradict each other for {name!r}",
                found=f"chunks that sum to {sum(chunks)}",
                expected=f"{total}",
            )
    return per_chunk, totals


def _integers(counts: Sequence[float]) -> tuple[int, ...]:
    """Return the counts as int, because JSON Schema accepts 3.0 as an integer."""
    return tuple(int(count) for count in counts)


def read_metadata_document(source: Store) -> Any:
    """Parse the ``metadata.json`` at the root of a graph.

    Args:
        source: The graph's root.

    Raises:
        InvalidInputError: The file is missing, is not JSON, or an object in it has a name twice: most
            parsers would silently use the last of two features with the same name.
    """
    data = source.read_bytes(METADATA)
    try:
        return json.loads(data, object_pairs_hook=_object)
    except (ValueError, RecursionError) as error:
        raise invalid_json_error(source.uri_of(METADATA), error) from error


def known_metadata_keys() -> set[str]:
    """Return the keys of ``metadata.json`` in DGL's format, and those that GraphStorm adds."""
    return {*schema_document("metadata")["properties"], "row_counts", "raw_id_mappings", "graph_info"}


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"an object has the name {twice!r} twice")
    return found
