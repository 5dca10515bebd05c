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
    """Where a table is.

    Attributes:
        paths: Paths, patterns or folders as they are written.
        format: Name of the `TableSource` that reads the files; None if their names say so.
        delimiter: Of CSV; None for the one that the header has most of: a comma, tab, semicolon or ``|``.
        quote: Around values of CSV, and twice inside of them; empty for none.
        sql: A query, instead of paths.
        database: The file that is queried.
        connection: The server that is queried instead: a URL of PostgreSQL without a password, or ``$NAME``.
        types: Types of columns, by name.
        columns: Names of the columns of CSV files without a header.
        encoding: Of text files.
    """

    paths: tuple[str, ...] = ()
    format: str | None = None
    delimiter: str | None = None
    quote: str = '"'
    sql: str = ""
    database: str = ""
    connection: str = ""
    types: Mapping[str, str] = field(default_factory=dict)
    columns: tuple[str, ...] = ()
    encoding: str = ""

    @property
    def name(self) -> str:
        """The table in words of the file, for messages."""
        if self.sql:
            return f"the query on {self.database or self.connection or ', '.join(self.paths)}"
        return ", ".join(self.paths)


@dataclass(frozen=True)
class FeatureColumn:
    """A feature made of a column, or of several.

    Attributes:
        name: Name of the feature.
        column: The column.
        transform: ``none``, ``standardise``, ``min-max``, ``rank-gauss``, ``one-hot``, ``multi-hot``,
            ``category``, ``bucket`` or ``hash``.
        boundaries: Limits of the buckets, if they are not fitted.
        buckets: Number of buckets or hashes.
        dtype: Dtype of the feature; empty keeps that of the column.
        missing: Value used for nulls; None rejects them.
        columns: Several columns of numbers, which become the columns of a matrix; also patterns.
        separator: Between the values of a list that is written as text.
        truncate: Leave out all numbers of a list behind the first ones.
        bounds: Least and largest number; others become one of them before the transform.
    """

    name: str
    column: str
    transform: str = "none"
    boundaries: tuple[float, ...] = ()
    buckets: int = 0
    dtype: str = ""
    missing: float | str | bool | None = None
    columns: tuple[str, ...] = ()
    separator: str = ""
    truncate: int = 0
    bounds: tuple[float, ...] = ()

    @property
    def parts(self) -> tuple[str, ...]:
        """The columns of the table."""
        return self.columns or (self.column,)


@dataclass(frozen=True)
class Split:
    """Which nodes or edges are for training, validation and testing: one of four ways.

    Attributes:
        column: A column with the part of each row.
        values: By part, the values of the column, as text.
        masks: By part, a column of booleans.
        shares: Shares of the parts; the part of a node follows from its key, that of an edge from its key or,
            without one, from the IDs of its ends.
        time: A column of times or numbers: rows before all of ``starts`` are for training.
        starts: By ``val`` and ``test``, the first time of the part, in seconds since 1970, or number.
    """

    column: str = ""
    values: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    masks: Mapping[str, str] = field(default_factory=dict)
    shares: tuple[float, ...] = ()
    time: str = ""
    starts: Mapping[str, float] = field(default_factory=dict)

    @property
    def columns(self) -> list[str]:
        return [*filter(None, (self.column, self.time)), *self.masks.values()]


@dataclass(frozen=True, kw_only=True)
class TypeTable(ABC):
    """A node type or an edge type, and what becomes of the columns of its table.

    Attributes:
        name: The node type, or the edge type as ``src:rel:dst``.
        table: The table; without one the nodes of a type are the keys that edges name.
        features: Features to write.
        label: Column of the label, if there is one.
        task: ``classification`` or ``regression``.
        split: How nodes or edges are split, if they are.
        text: Columns whose text is kept.
        actions: What to do about findings.
        labels: Further labels by name, each as the type with this label and its split alone.
    """

    name: str
    table: TableFile | None
    features: tuple[FeatureColumn, ...] = ()
    label: str = ""
    task: str = "classification"
    split: Split | None = None
    text: tuple[str, ...] = ()
    actions: Mapping[str, str]
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
    """An edge type.

    Attributes:
        src: The columns with the key of the source.
        dst: The columns with the key of the destination.
        key: The columns with the key of an edge, if edges have keys.
        reverse: Name of the relation of its reverse edges; empty for none.
        relation: Column with the relation, if the table has several; the name has a ``*`` in its place.
        value: The relation of these edges, of such a table.
        negatives: The pairs that are no edges, as a type whose name ends with `NEGATIVES`.
    """

    src: tuple[str, ...]
    dst: tuple[str, ...]
    key: tuple[str, ...] = ()
    reverse: str = ""
    relation: str = ""
    value: str = ""
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
    """A parsed ``graph.yaml``.

    Attributes:
        where: Its URI, for messages.
        graph_name: Name of the graph.
        nodes: Node types, in the order of their type IDs.
        edges: Edge types, likewise.
        document: The file as parsed, for records.
    """

    where: str
    graph_name: str
    nodes: tuple[NodeTable, ...]
    edges: tuple[EdgeTable, ...]
    document: Mapping[str, Any]

    @property
    def pairs(self) -> tuple[EdgeTable, ...]:
        """The edges, and the negatives of those that have some: everything that names nodes."""
        return *self.edges, *(edge.negatives for edge in self.edges if edge.negatives is not None)

    @property
    def types(self) -> tuple[NodeTable | EdgeTable, ...]:
        """All types, in the order of their tables."""
        return *self.nodes, *self.pairs
