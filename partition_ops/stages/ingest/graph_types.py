"""Node types and edge types in tables with keys, as ``graph.yaml`` describes them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from partition_ops.chunked.names import EdgeType

CATEGORIES = ("one-hot", "hash", "category", "multi-hot")
PARTS = ("train", "val", "test")
NEGATIVES = "/negatives"  # behind the name of an edge type; no type has a slash in its name


@dataclass(frozen=True)
class TableFile:
    """Where a table is."""

    paths: tuple[str, ...] = ()  # paths, patterns or folders as they are written
    format: str | None = None  # name of the `TableSource` that reads the files; None if their names say so
    # of CSV; None for the one that the header has most of: a comma, tab, semicolon or ``|``
    delimiter: str | None = None
    quote: str = '"'  # around values of CSV, and twice inside of them; empty for none
    sql: str = ""  # a query, instead of paths
    database: str = ""  # the file that is queried
    # the server that is queried instead: a URL of PostgreSQL without a password, or ``$NAME``
    connection: str = ""
    types: Mapping[str, str] = field(default_factory=dict)  # types of columns, by name
    columns: tuple[str, ...] = ()  # names of the columns of CSV files without a header
    encoding: str = ""  # of text files

    @property
    def name(self) -> str:
        """The table in words of the file, for messages."""
        if self.sql:
            return f"the query on {self.database or self.connection or ', '.join(self.paths)}"
        return ", ".join(self.paths)


@dataclass(frozen=True)
class FeatureColumn:
    """A feature made of a column, or of several."""

    name: str  # name of the feature
    column: str
    # ``none``, ``standardise``, ``min-max``, ``rank-gauss``, ``one-hot``, ``multi-hot``, ``category``,
    # ``bucket`` or ``hash``
    transform: str = "none"
    boundaries: tuple[float, ...] = ()  # limits of the buckets, if they are not fitted
    buckets: int = 0  # number of buckets or hashes
    dtype: str = ""  # dtype of the feature; empty keeps that of the column
    missing: float | str | bool | None = None  # value used for nulls; None rejects them
    # several columns of numbers, which become the columns of a matrix; also patterns
    columns: tuple[str, ...] = ()
    separator: str = ""  # between the values of a list that is written as text
    truncate: int = 0  # leave out all numbers of a list behind the first ones
    bounds: tuple[float, ...] = ()  # least and largest number; others become one of them before the transform

    @property
    def parts(self) -> tuple[str, ...]:
        """The columns of the table."""
        return self.columns or (self.column,)


@dataclass(frozen=True)
class Split:
    """Which nodes or edges are for training, validation and testing: one of four ways."""

    column: str = ""  # a column with the part of each row
    # by part, the values of the column, as text
    values: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    masks: Mapping[str, str] = field(default_factory=dict)  # by part, a column of booleans
    # shares of the parts; the part of a node follows from its key, that of an edge from its key or, without
    # one, from the IDs of its ends
    shares: tuple[float, ...] = ()
    time: str = ""  # a column of times or numbers: rows before all of ``starts`` are for training
    # by ``val`` and ``test``, the first time of the part, in seconds since 1970, or number
    starts: Mapping[str, float] = field(default_factory=dict)

    @property
    def columns(self) -> list[str]:
        return [*filter(None, (self.column, self.time)), *self.masks.values()]


@dataclass(frozen=True, kw_only=True)
class TypeTable(ABC):
    """A node type or an edge type, and what becomes of the columns of its table."""

    name: str  # the node type, or the edge type as ``src:rel:dst``
    table: TableFile | None  # the table; without one the nodes of a type are the keys that edges name
    features: tuple[FeatureColumn, ...] = ()  # features to write
    label: str = ""  # column of the label, if there is one
    task: str = "classification"  # ``classification`` or ``regression``
    split: Split | None = None  # how nodes or edges are split, if they are
    text: tuple[str, ...] = ()  # columns whose text is kept
    actions: Mapping[str, str]  # what to do about findings
    # further labels by name, each as the type with this label and its split alone
    labels: Mapping[str, TypeTable] = field(default_factory=dict)

    @property
    @abstractmethod
    def keys(self) -> tuple[str, ...]:
        """The columns with keys."""

    @property
    @abstractmethod
    def about(self) -> str:
        """The type in messages."""

    @property
    def used(self) -> list[str]:
        """The columns of the table that are needed beside the keys."""
        names = [column for feature in self.features for column in feature.parts]
        names += ([self.label] if self.label else []) + (self.split.columns if self.split else [])
        more = [column for one in self.labels.values() for column in one.used]
        return list(dict.fromkeys([*names, *more, *self.text]))

    @property
    def only_text(self) -> set[str]:
        """The columns of which only the text matters, as it is written: texts and categories."""
        categories = {f.column for f in self.features if f.transform in CATEGORIES}
        numbers = {name for f in self.features if f.transform not in CATEGORIES for name in f.parts}
        others = {self.label, *(self.split.columns if self.split else ())}
        others |= {column for one in self.labels.values() for column in one.used}
        return ({*self.text} | categories) - numbers - others

    @property
    def classifies(self) -> bool:
        """Whether the label is a class."""
        return bool(self.label) and self.task == "classification"


@dataclass(frozen=True, kw_only=True)
class NodeTable(TypeTable):
    """A node type."""

    key: tuple[str, ...] = ()

    @property
    def keys(self) -> tuple[str, ...]:
        return self.key

    @property
    def ends(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """The node type with its columns of keys, as edges have two of them."""
        return ((self.name, self.key),)

    @property
    def about(self) -> str:
        return f"nodes {self.name!r}"


@dataclass(frozen=True, kw_only=True)
class EdgeTable(TypeTable):
    """An edge type."""

    src: tuple[str, ...]  # the columns with the key of the source
    dst: tuple[str, ...]  # the columns with the key of the destination
    key: tuple[str, ...] = ()  # the columns with the key of an edge, if edges have keys
    reverse: str = ""  # name of the relation of its reverse edges; empty for none
    # column with the relation, if the table has several; the name has a ``*`` in its place
    relation: str = ""
    value: str = ""  # the relation of these edges, of such a table
    # the pairs that are no edges, as a type whose name ends with `NEGATIVES`
    negatives: EdgeTable | None = None

    def of_relation(self, value: str) -> EdgeTable:
        """Return the edges of one relation."""
        src, rel, dst = self.name.split(":")
        name = "".join(f"%{ord(one):02X}" if one in "%:/\\" else one for one in value)
        reverse = self.reverse.replace("*", name)
        return replace(self, name=f"{src}:{rel.replace('*', name)}:{dst}", value=value, reverse=reverse)

    @property
    def used(self) -> list[str]:
        return list(dict.fromkeys([*super().used, *self.key]))

    @property
    def only_text(self) -> set[str]:
        return super().only_text | ({*self.key} - {*super().used})

    @property
    def edge_type(self) -> EdgeType:
        return EdgeType(*self.name.removesuffix(NEGATIVES).split(":"))

    @property
    def reverse_type(self) -> EdgeType:
        """The type of the reverse edges, if there are any."""
        return EdgeType(self.edge_type.dst, self.reverse, self.edge_type.src)

    @property
    def ends(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """The node types of sources and destinations, each with its columns of keys."""
        return (self.edge_type.src, self.src), (self.edge_type.dst, self.dst)

    @property
    def keys(self) -> tuple[str, ...]:
        return *self.src, *self.dst, *filter(None, [self.relation])

    @property
    def about(self) -> str:
        kind = "negatives of" if self.name.endswith(NEGATIVES) else "edges"
        return f"{kind} {str(self.edge_type)!r}"


@dataclass(frozen=True)
class GraphFile:
    """A parsed ``graph.yaml``."""

    where: str  # its URI, for messages
    graph_name: str  # name of the graph
    nodes: tuple[NodeTable, ...]  # node types, in the order of their type IDs
    edges: tuple[EdgeTable, ...]  # edge types, likewise
    document: Mapping[str, Any]  # the file as parsed, for records

    @property
    def pairs(self) -> tuple[EdgeTable, ...]:
        """The edges, and the negatives of those that have some: everything that names nodes."""
        return *self.edges, *(edge.negatives for edge in self.edges if edge.negatives is not None)

    @property
    def types(self) -> tuple[NodeTable | EdgeTable, ...]:
        """All types, in the order of their tables."""
        return *self.nodes, *self.pairs
