"""Compare an ingested graph with its tables: counts, all keys, all ends of edges, and a sample of rows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq

from partition_ops.chunked.metadata import METADATA
from partition_ops.errors import UsageError
from partition_ops.formats.findings import Findings
from partition_ops.stages.ingest.graph_file import read_graph_file
from partition_ops.stages.ingest.graph_types import (
    NEGATIVES,
    PARTS,
    EdgeTable,
    GraphFile,
    NodeTable,
    TableFile,
    TypeTable,
)
from partition_ops.stages.ingest.options import is_graph_file, is_saved_graph
from partition_ops.storage import Store
from partition_ops.storage.uris import split_uri
from partition_ops.verification.expected_values import (
    feature_of,
    is_one_of,
    is_text_of,
    key_text,
    number_of,
    texts_of,
)
from partition_ops.verification.table_rows import TableRows

TABLE_CHECKS = {
    "table-nodes": "the nodes are the keys of the tables, each once, and none is missing",
    "table-edges": "the edges are the rows of the tables, with the nodes that their keys name",
    "table-rows": "features, labels, masks and texts of a sample of rows are those of the tables",
}
SAMPLE = 1000  # nodes or edges of a type
SHOWN = 3
BLOCK = 1 << 16
Ids = npt.NDArray[np.int64]


@dataclass(frozen=True)
class GraphTables:
    """The tables of a graph."""

    file: GraphFile  # the parsed ``graph.yaml``
    source: Store  # its folder
    opened: Callable[[str], Store]  # opens other folders


@dataclass
class TableChecks:
    """Reads the tables of a graph again, and compares.

    Peak memory: 250 bytes a node of all types.
    """

    findings: Findings  # takes the failures
    tables: GraphTables
    graph: Store  # root of the ingested graph
    ids: dict[str, dict[str, int]] = field(default_factory=dict)
    isolated: dict[str, set[str]] = field(default_factory=dict)

    def check(self) -> None:
        """Run all checks of `TABLE_CHECKS`.

        Raises:
            UsageError: A table is of a kind that cannot be read again.
        """
        self.edges = [one for edge in self.tables.file.edges for one in self._relations(edge)]
        self.metadata: dict[str, Any] = self.graph.read_json(METADATA)
        self.state: dict[str, Any] = self.graph.read_json("ingest.json")
        for spec in self.tables.file.types:
            if spec.table is not None:
                self._reader(spec.table).check_kind()
        for node in self.tables.file.nodes:
            with self.findings.check("table-nodes"):
                self.ids[node.name] = self._node_ids(node)
        for node in self.tables.file.nodes:
            with self.findings.check("table-nodes"):
                self._check_nodes(node)
        types: list[TypeTable] = [*self.tables.file.nodes, *self.edges]
        for one in types:
            with self.findings.check("table-rows"):
                if one.table is not None:
                    self._check_rows(self._with_columns(one))
        for edge in (*self.edges, *(one.negatives for one in self.edges if one.negatives is not None)):
            with self.findings.check("table-edges"):
                self._check_edges(edge)
        if len(self.edges) != len(self.metadata["edge_type"]):
            self.findings.fail(
                "table-edges", f"{len(self.metadata['edge_type'])} edge types: {len(self.edges)}"
            )

    def _with_columns(self, spec: TypeTable) -> TypeTable:
        """Return a type whose features have the columns that patterns stand for."""
        state = self.state["edge_types" if isinstance(spec, EdgeTable) else "node_types"].get(spec.name, {})
        known = {name: one["declared"] for name, one in state.get("features", {}).items()}
        columns = {one.name: tuple(known.get(one.name, {}).get("columns", ())) for one in spec.features}
        return replace(spec, features=tuple(replace(f, columns=columns[f.name]) for f in spec.features))

    def _relations(self, edge: EdgeTable) -> list[EdgeTable]:
        """Return an edge type, or those of a table with several relations."""
        if not edge.relation or edge.table is None:
            return [edge]
        values = {_text_of(row[0]) for row in self._reader(edge.table).read([edge.relation])}
        return [edge.of_relation(value) for value in sorted(filter(None, values))]

    def _node_ids(self, node: NodeTable) -> dict[str, int]:
        files = self.metadata["node_ids"][node.name]["data"]
        keys = [
            str(key)
            for file in files
            for key in pq.read_table(self.graph.local_copy(file))["key"].to_pylist()
        ]
        found = {key: index for index, key in enumerate(keys)}
        count = self.state["node_types"][node.name]["nodes"]
        if not len(found) == len(keys) == count:
            self.findings.fail(
                "table-nodes", f"{node.about}: {len(keys)} IDs of {len(found)} keys, {count} nodes"
            )
        return found

    def _check_nodes(self, node: NodeTable) -> None:
        """Compare the keys of a type with those of its table, and of the edges that may add nodes."""
        known, seen = self.ids[node.name], set()
        sources: list[tuple[TypeTable, Sequence[str]]] = [(node, node.key)] if node.table is not None else []
        sources += [
            (edge, columns)
            for edge in self.tables.file.pairs
            for name, columns in edge.ends
            if name == node.name and (node.table is None or edge.actions.get("absent_keys") == "add")
        ]
        lost: dict[str, None] = {}
        for spec, columns in sources:
            for key in self._keys(spec, columns):
                if key in known:
                    seen.add(key)
                elif key is not None:
                    lost[key] = None
        if lost:
            self._fail("table-nodes", node, f"{len(lost)} keys of the tables are no nodes", [*lost])
        old = self.state["node_types"][node.name]["old_nodes"]
        if len(seen) != len(known) and not (old and node.table is None):
            extra = [key for key in known if key not in seen]
            reported = {one["action"]: one["count"] for one in self._removed(node.name)}
            if len(extra) != reported.get("isolate", reported.get("keep", 0)):
                self._fail("table-nodes", node, f"{len(extra)} nodes are in no table", extra)
            if "isolate" in reported:
                self.isolated[node.name] = {*extra}

    def _removed(self, name: str) -> list[dict[str, Any]]:
        """Return what ``ingest`` says of nodes of a type that are in no table any more."""
        findings = self.state["findings"]
        return [one for one in findings if (one["check"], one["about"]) == ("removed_nodes", name)]

    def _check_edges(self, edge: EdgeTable) -> None:
        """Compare the number of edges, and the sum of a hash of their ends, with those of the table."""
        src, dst = (
            {key: place for key, place in self.ids[name].items() if key not in self.isolated[name]}
            if name in self.isolated
            else self.ids[name]
            for name, _ in edge.ends
        )
        count, total = 0, np.uint64(0)
        for block in _blocks(zip(*(self._keys(edge, columns) for _, columns in edge.ends), strict=True)):
            ends = np.array([(src.get(a, -1), dst.get(b, -1)) for a, b in block], np.int64).reshape(-1, 2)
            ends = ends[(ends >= 0).all(axis=1)]
            count, total = count + len(ends), total + _sum(ends[:, 0], ends[:, 1])
        stored, summed = 0, np.uint64(0)
        for a, b in self._stored_edges(edge):
            stored, summed = stored + len(a), summed + _sum(a, b)
        if count != stored:
            self._fail("table-edges", edge, f"{stored} edges, and {count} rows with nodes", [])
        elif total != summed:
            self._fail("table-edges", edge, "the ends are not those of the rows", [])

    def _check_rows(self, spec: TypeTable) -> None:
        """Compare a sample of rows: each node, or edge by its ends, must be made of a row of the table."""
        columns = list(dict.fromkeys([*spec.keys, *spec.used]))
        if not spec.used or spec.table is None:
            return
        rows: defaultdict[tuple[int, ...], list[dict[str, Any]]] = defaultdict(list)
        wanted = self._sampled(spec)
        ends = spec.ends if isinstance(spec, EdgeTable) else ((spec.name, spec.keys),)
        for row in self._reader(spec.table).read(columns):
            values = dict(zip(columns, row, strict=True))
            if isinstance(spec, EdgeTable) and spec.value and _text_of(values[spec.relation]) != spec.value:
                continue
            keys = [self._key(spec, [values[name] for name in names], names) for _, names in ends]
            place = tuple(
                self.ids[name].get(key or "", -1) for (name, _), key in zip(ends, keys, strict=True)
            )
            if place in wanted:
                rows[place].append(values)
        expected = _Expected(
            spec, self.state["edge_types" if isinstance(spec, EdgeTable) else "node_types"][spec.name]
        )
        for name, array in self._arrays(spec).items():
            wrong = []
            for place, stored in wanted.items():
                found = rows[place]
                if found and not expected.are(name, [array[one] for one in stored], found):
                    wrong.append(f"{' -> '.join(map(str, place))}: {array[stored[0]]}")
            if wrong:
                self._fail("table-rows", spec, f"{name} of {len(wrong)} rows of the sample differs", wrong)

    def _sampled(self, spec: TypeTable) -> dict[tuple[int, ...], list[int]]:
        """Return the sample: by node, or by the ends of edges, the IDs of the stored rows."""
        if not isinstance(spec, EdgeTable):
            count = len(self.ids[spec.name])
            return {(node,): [node] for node in range(0, count, max(count // SAMPLE, 1))}
        blocks = [*self._stored_edges(spec)]
        src, dst = (np.concatenate([block[i] for block in blocks]) if blocks else _NONE for i in range(2))
        step = max(len(src) // SAMPLE, 1)
        chosen = {(int(a), int(b)) for a, b in zip(src[::step], dst[::step], strict=True)}
        codes = np.array([a for a, _ in chosen], np.int64)
        found: dict[tuple[int, ...], list[int]] = {place: [] for place in chosen}
        for edge in np.flatnonzero(np.isin(src, codes)):
            place = (int(src[edge]), int(dst[edge]))
            if place in found:
                found[place].append(int(edge))
        return found

    def _arrays(self, spec: TypeTable) -> dict[str, Any]:
        """Return the stored columns of a type by name, (rows, ...) each."""
        section = "edge_data" if isinstance(spec, EdgeTable) else "node_data"
        found: dict[str, Any] = {}
        for name, entry in self.metadata.get(section, {}).get(spec.name, {}).items():
            parts = [np.load(self.graph.local_copy(key), mmap_mode="r") for key in entry["data"]]
            found[name] = parts[0] if len(parts) == 1 else np.concatenate(parts)
        for name, entry in self.metadata.get("node_text", {}).get(spec.name, {}).items():
            tables = [pq.read_table(self.graph.local_copy(key)) for key in entry["data"]]
            found[f"text {name}"] = [text for table in tables for text in table[entry["column"]].to_pylist()]
        return found

    def _stored_edges(self, edge: EdgeTable) -> Iterator[tuple[Ids, Ids]]:
        of_type = self.metadata["negatives" if edge.name.endswith(NEGATIVES) else "edges"]
        for key in of_type[str(edge.edge_type)]["data"]:
            with pq.ParquetFile(self.graph.local_copy(key)) as file:
                for batch in file.iter_batches(BLOCK, columns=["src", "dst"]):
                    yield batch.column("src").to_numpy(), batch.column("dst").to_numpy()

    def _reader(self, table: TableFile) -> TableRows:
        return TableRows(table, self.tables.source, self.tables.opened)

    def _keys(self, spec: TypeTable, columns: Sequence[str]) -> Iterator[str | None]:
        if spec.table is not None:
            value, relation = (spec.value, spec.relation) if isinstance(spec, EdgeTable) else ("", "")
            names = list(dict.fromkeys([*columns, *([relation] if value else [])]))
            for row in self._reader(spec.table).read(names):
                if value and _text_of(row[names.index(relation)]) != value:
                    continue
                yield self._key(spec, [row[names.index(name)] for name in columns], columns)

    @staticmethod
    def _key(spec: TypeTable, values: Sequence[Any], columns: Sequence[str]) -> str | None:
        types = spec.table.types if spec.table is not None else {}
        return key_text(values, [types.get(name) for name in columns])

    def _fail(self, check: str, spec: TypeTable, what: str, examples: Sequence[str]) -> None:
        shown = f": {', '.join(examples[:SHOWN])}" if examples else ""
        self.findings.fail(check, f"{spec.about}: {what}{shown}")


@dataclass(frozen=True)
class _Expected:
    """What the stored columns of a type must be, by the rows of its table."""

    spec: TypeTable
    state: Mapping[str, Any]

    def are(self, name: str, stored: Sequence[Any], rows: Sequence[Mapping[str, Any]]) -> bool:
        """Return whether each stored value is that of one of the rows with the same key or ends."""
        return all(any(self._is(name, value, row) for row in rows) for value in stored)

    def _is(self, name: str, value: Any, row: Mapping[str, Any]) -> bool:
        if name.startswith("text "):
            text = row[name.removeprefix("text ")]
            return is_text_of(value, text)
        features = self.state.get("features", {})
        if name in features:
            declared = features[name]["declared"]
            several = declared.get("columns")
            found = [row[one] for one in several] if several else row[declared["column"]]
            expected = feature_of(found, declared, features[name]["fitted"])
            return not expected or is_one_of(np.asarray(value), expected)
        if name == "label" and self.spec.label:
            return self._is_label(value, row[self.spec.label])
        if name in self._parts and self.spec.split is not None:
            return self._is_mask(bool(value), self._parts[name], row)
        for label, spec in self.spec.labels.items():
            if name.endswith(f"_{label}"):
                state = {**self.state.get("labels", {}).get(label, {}), "features": {}}
                return _Expected(replace(spec, labels={}), state)._is(
                    name.removesuffix(f"_{label}"), value, row
                )
        return True

    @cached_property
    def _parts(self) -> dict[str, str]:
        return {f"{part}_mask": part for part in PARTS}

    def _is_label(self, value: Any, found: Any) -> bool:
        if not self.spec.classifies:
            return np.isnan(value) if found is None else bool(np.isclose(value, float(found), 1e-5))
        if found is None:
            return int(value) == -1
        return int(value) >= 0 and str(self.state["classes"][int(value)]) in texts_of(found) | {str(found)}

    def _is_mask(self, value: bool, part: str, row: Mapping[str, Any]) -> bool:
        split = self.spec.split
        if split is None or split.shares:  # it follows from the key
            return True
        if split.time:
            when = None if row[split.time] is None else number_of(row[split.time])
            later = [name for name, start in split.starts.items() if when is not None and when >= start]
            return value == (when is not None and part == (later[-1] if later else "train"))
        if split.masks:
            truth = row[split.masks[part]] if part in split.masks else None
            return value == (truth is not None and bool({"true", "1"} & texts_of(truth)))
        found = row[split.column]
        return value == (found is not None and not {*split.values.get(part, ())}.isdisjoint(texts_of(found)))


def open_tables(uri: str, opened: Callable[[str], Store]) -> GraphTables:
    """Return the tables of a ``graph.yaml``.

    Raises:
        UsageError: It is something else.
        InvalidInputError: It is missing or not valid.
    """
    if not is_graph_file(uri) or is_saved_graph(uri):
        raise UsageError("--tables needs the graph.yaml as INPUT", found=repr(uri))
    folder, name = split_uri(uri)
    source = opened(folder)
    return GraphTables(read_graph_file(source, name), source, opened)


_NONE: Ids = np.zeros(0, np.int64)


def _text_of(value: Any) -> str | None:
    """Return a relation as text."""
    return None if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _blocks(rows: Iterator[tuple[Any, ...]]) -> Iterator[list[tuple[Any, ...]]]:
    block: list[tuple[Any, ...]] = []
    for row in rows:
        block.append(row)
        if len(block) == BLOCK:
            yield block
            block = []
    if block:
        yield block


def _sum(src: Ids, dst: Ids) -> np.uint64:
    """Return a sum over edges that does not depend on their order (splitmix64 of both ends)."""
    with np.errstate(over="ignore"):
        mixed = src.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + dst.astype(np.uint64)
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
        return np.uint64((mixed ^ (mixed >> np.uint64(31))).sum(dtype=np.uint64))
