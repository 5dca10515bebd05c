"""Looks for what is wrong with the rows of tables, with the first of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import ibis
import pyarrow as pa

from partition_ops.chunked.graph_writer import ORIG_ID
from partition_ops.chunked.names import LONGEST_NAME
from partition_ops.errors import InvalidInputError, some_of
from partition_ops.stages.ingest.engines import FILE_INDEX, ROW_INDEX, DuckDB, TableEngine
from partition_ops.stages.ingest.graph_types import CATEGORIES, EdgeTable, FeatureColumn, NodeTable, TypeTable
from partition_ops.stages.ingest.keys import KEY, Ends, Numbered, key_of, key_schema
from partition_ops.stages.ingest.problems import SHOWN, Problem, RejectedTablesError, count_of, shown
from partition_ops.stages.ingest.tables import ParquetTable
from partition_ops.stages.ingest.transforms import Outside

MOST_RELATIONS = 4096


@dataclass(frozen=True)
class Findings:
    """Looks for what is wrong with rows, and collects it."""

    engine: TableEngine  # counts rows
    duckdb: DuckDB  # finds rows for messages, whatever the engine is
    sources: Mapping[str, ParquetTable]  # the tables by type
    tables: Mapping[str, ibis.Table]  # the same, for expressions
    problems: list[Problem] = field(default_factory=list)  # what was found

    @property
    def failed(self) -> bool:
        """Whether the tables will be rejected."""
        return any(problem.action == "fail" for problem in self.problems)

    def reject(self, where: str, counts: Mapping[str, Any]) -> None:
        """Raise the error of all problems whose action is ``fail``, if there are any.

        Raises:
            RejectedTablesError: There are some; the message names each with its first rows.
        """
        fatal = [problem for problem in self.problems if problem.action == "fail"]
        if not fatal:
            return
        error = RejectedTablesError(
            f"{where}: the tables are not a graph",
            found=[f"{one.sentence}: {some_of([*one.examples], SHOWN)}" for one in fatal],
            remedy="\n".join(dict.fromkeys(one.remedy for one in fatal if one.remedy)),
        )
        error.counts, error.problems = counts, self.problems
        raise error

    def check_keys(
        self, node: NodeTable, own: Ends, as_text: bool, distinct: int | None = None
    ) -> tuple[int, bool]:
        """Report null keys, and keys that are there twice.

        Args:
            node: The node type.
            own: The keys of its table.
            as_text: Whether they are compared as text.
            distinct: The number of distinct keys, if it is known.

        Returns:
            The number of distinct keys, and whether none is there twice.
        """
        keys = own.table.select(key=key_of(own.table, own.columns, as_text))
        unknown = {} if distinct is not None else {"distinct": keys.key.nunique()}
        counts = self.engine.one(keys.aggregate(nulls=keys.key.isnull().sum(), **unknown))
        nulls = int(counts["nulls"] or 0)
        distinct = int(counts["distinct"]) if distinct is None else distinct
        self._report_null_keys(node, own.columns, nulls)
        again = own.source.rows - nulls - distinct

        if again:
            self.add(
                node,
                "duplicate_keys",
                again,
                f"{count_of(again, 'row')} of {own.source.name} ({node.about})"
                f" with a key in {', '.join(own.columns)} that another row has",
                sorted(self._rows(node, lambda t: _is_twice(t, own.columns), own.columns, 20)),
                "Remove them, or keep the first in the order of their columns with on_defect:"
                " {duplicate_keys: drop}.",
            )
        return distinct, not again

    def check_edge_keys(self, edge: EdgeTable) -> None:
        """Report the rows of edges without a key of their own."""
        table, source = self.tables[edge.name], self.sources[edge.name]
        keys = table.select(key=key_of(table, edge.key, True))
        distinct = int(self.engine.one(keys.aggregate(n=keys.key.nunique()))["n"])
        count = source.rows - distinct

        def not_own(table: ibis.Table) -> Any:
            return key_of(table, edge.key, True).isnull() | _is_twice(table, edge.key)

        if count:
            self.add(
                edge,
                "edge_keys",
                count,
                f"{count_of(count, 'row')} of {source.name} ({edge.about}) with no key in"
                f" {', '.join(edge.key)}, or with one that another row has",
                sorted(self._rows(edge, not_own, edge.key, 20)),
                "Correct the rows, or set on_defect: {edge_keys: warn}: results for edges cannot be joined to"
                " them by their keys.",
            )

    def check_gone(self, node: NodeTable, wanted: Sequence[Ends], gone: ibis.Table) -> int:
        """Report the nodes of the previous graph that are in no table, and return their number.

        Args:
            node: The node type.
            wanted: The table of the type, and those of edges that add nodes.
            gone: The IDs and keys of these nodes.

        Raises:
            InvalidInputError: There are such nodes, and they are not allowed; the message names the first.
        """
        count, action = (
            int(self.engine.one(gone.aggregate(n=gone.count()))["n"]),
            node.actions["removed_nodes"],
        )
        if not count:
            return 0
        first = [shown(row[KEY]) for row in self.engine.rows(gone.order_by(ORIG_ID).limit(5))]
        tables = " or ".join(dict.fromkeys(end.source.name for end in wanted))
        sentence = f"{count_of(count, 'node')} of the previous graph have no row in {tables}"
        if action == "fail":
            raise InvalidInputError(
                f"{node.about}: {sentence}",
                found=", ".join(first),
                expected="every old node, or 'on_removed' in graph.yaml",
                remedy="Add their rows, or set on_removed: isolate (they keep their IDs without edges), keep"
                " (with their edges) or renumber (the IDs of others change).",
            )
        self.add(node, "removed_nodes", count, sentence, first, "")
        return count

    def report_added(self, node: NodeTable, own: Ends, keys: ibis.Table, count: int, as_text: bool) -> None:
        """Report the nodes that only edges name."""
        added = keys.anti_join(own.keys(as_text), KEY).order_by(ORIG_ID).limit(SHOWN)
        examples = [f"{node.name} {shown(row[KEY])}" for row in self.engine.rows(added)]
        sentence = f"{count_of(count, 'key')} of {node.name!r} named by edges and not in {own.source.name}"
        self.problems.append(Problem("absent_keys", node.name, sentence, count, "add", examples))

    def report_lost_edges(self, edge: EdgeTable, src: Numbered, dst: Numbered) -> None:
        """Report the edges that were left out: those without a key, and those with an absent one."""
        source, table = self.sources[edge.name], self.tables[edge.name]
        for (node_type, columns), numbered in zip(edge.ends, (src, dst), strict=True):
            keys = table.select(key=key_of(table, columns, numbered.as_text))
            nulls = int(self.engine.one(keys.aggregate(n=keys.key.isnull().sum()))["n"] or 0)
            self._report_null_keys(edge, columns, nulls)
            absent = keys.filter(keys.key.notnull()).anti_join(numbered.table.select("key"), KEY)
            if numbered.gone is not None:
                absent = self._without_gone(edge, node_type, columns, numbered.gone.select("key"), absent)
            counts = self.engine.one(absent.aggregate(n=absent.count(), keys=absent.key.nunique()))
            if counts["n"]:
                known = self._keys_of(numbered)

                def is_absent(
                    table: ibis.Table,
                    columns: Sequence[str] = columns,
                    as_text: bool = numbered.as_text,
                    known: ibis.Table = known,
                    gone: ibis.Table | None = numbered.gone,
                ) -> Any:
                    key = key_of(table, columns, as_text)
                    lost = key.notin(known.key) & key.notnull()
                    return lost if gone is None else lost & key.notin(gone.key)

                self.add(
                    edge,
                    "absent_keys",
                    counts["n"],
                    f"{count_of(counts['n'], 'row')} of {source.name} ({edge.about}) whose {node_type} in"
                    f" {', '.join(columns)} is not in {self.sources[node_type].name}"
                    f" ({count_of(counts['keys'], 'key')})",
                    self._rows(edge, is_absent, columns),
                    "Correct the tables, or set on_defect: {absent_keys: drop} (or add) for the edges.",
                )

    def _without_gone(
        self, edge: EdgeTable, node_type: str, columns: Sequence[str], gone: ibis.Table, absent: ibis.Table
    ) -> ibis.Table:
        """Report the edges of nodes that are gone, and return the other absent keys."""
        of_gone = absent.semi_join(gone, KEY)
        counts = self.engine.one(of_gone.aggregate(n=of_gone.count(), keys=of_gone.key.nunique()))
        if counts["n"]:
            first = self.engine.rows(of_gone.distinct().order_by(KEY).limit(SHOWN))
            sentence = (
                f"{count_of(counts['n'], 'row')} of {self.sources[edge.name].name} ({edge.about}) left out,"
                f" whose {node_type} in {', '.join(columns)} is gone"
            )
            examples = [f"{node_type} {shown(row[KEY])}" for row in first]
            self.problems.append(Problem("removed_nodes", edge.name, sentence, counts["n"], "drop", examples))
        return absent.anti_join(gone, KEY)

    def check_relations(self, edge: EdgeTable) -> dict[str, int]:
        """Report rows without a relation, and return the number of rows by relation, in their order.

        Raises:
            InvalidInputError: There are too many relations, or one is empty, too long or not printable.
        """
        table = self.tables[edge.name]
        relation = table.select(relation=table[edge.relation].cast("string"))
        counts = self.engine.rows(
            relation.group_by("relation").agg(n=lambda t: t.count()).limit(MOST_RELATIONS + 2)
        )
        found = {row["relation"]: int(row["n"]) for row in counts}
        self._report_null_keys(edge, [edge.relation], found.pop(None, 0))
        odd = sorted(
            value
            for value in found
            if not value.strip()
            or not value.isprintable()
            or len(edge.of_relation(value).name.encode()) > LONGEST_NAME
        )
        if odd or len(found) > MOST_RELATIONS:
            rows = self._rows(edge, lambda t: t[edge.relation].cast("string").isin(odd), [edge.relation])
            raise InvalidInputError(
                f"{edge.about}: the values of {edge.relation!r} cannot be names of edge types",
                found=rows if odd else f"more than {MOST_RELATIONS:,} values",
                expected=f"at most {MOST_RELATIONS:,} printable values, with which the name of a type has at"
                f" most {LONGEST_NAME} bytes",
                remedy="Give the relations shorter names in a query, or take the column as a feature.",
            )
        return {value: found[value] for value in sorted(found)}

    def report_nulls(self, spec: TypeTable, column: str, count: int) -> None:
        """Report the missing values of a column with features."""
        names = [repr(f.name) for f in spec.features if column in f.parts]
        self.add(
            spec,
            "missing_values",
            count,
            f"{count_of(count, 'value')} of {column} missing in {self.sources[spec.name].name}"
            f" (feature {', '.join(names)} of {spec.name!r})",
            self._rows(spec, lambda t: t[column].isnull(), [*spec.keys, column])
            or ["nodes without a row in the table"],
            "Correct the rows, or set 'missing' of the feature in graph.yaml.",
        )

    def report_overlaps(self, spec: TypeTable, count: int, ids: list[int], numbered: Numbered | None) -> None:
        """Report the nodes in several of train, val and test; ``ids`` are the first of them."""
        rows = []
        if numbered is not None:
            known, as_text = self._keys_of(numbered), numbered.as_text
            wanted = [row[KEY] for row in self.duckdb.rows(known.filter(known[ORIG_ID].isin(ids)))]
            rows = self._rows(spec, lambda t: key_of(t, spec.keys, as_text).isin(wanted), spec.keys)
        self.add(
            spec,
            "overlapping_masks",
            count,
            f"{count_of(count, 'row')} of {self.sources[spec.name].name} ({spec.about})"
            " in several of train, val and test",
            rows,
            "Correct the masks, or set on_defect: {overlapping_masks: warn}.",
        )

    def report_split(self, spec: TypeTable, empty: Sequence[str], unnamed: Mapping[str, int]) -> None:
        """Report the parts of a split that no row is in, and the rows whose value no part names."""
        split, first = spec.split, dict(sorted(unnamed.items(), key=lambda one: (-one[1], one[0]))[:SHOWN])
        others = [f"{shown(value)} in {count_of(count, 'row')}" for value, count in first.items()]
        if empty and split is not None:
            named = {part: [*split.values[part]] if split.column else split.masks[part] for part in empty}
            self.add(
                spec,
                "empty_parts",
                len(empty),
                f"{count_of(len(empty), 'part')} of the split without a row ({spec.about}):"
                f" {', '.join(f'{part} {value}' for part, value in named.items())}",
                [f"the column {split.column} has {one}" for one in others] or ["no row for it"],
                "Correct the values of the split, or set on_defect: {empty_parts: warn}.",
                default="fail" if "train" in empty else "warn",
            )
        if unnamed and split is not None:
            self.add(
                spec,
                "unnamed_parts",
                sum(unnamed.values()),
                f"{count_of(sum(unnamed.values()), 'row')} of {self.sources[spec.name].name} ({spec.about})"
                f" with a value in {split.column} that no part of the split names",
                others,
                "Add the values to train, val or test.",
            )

    def report_new_classes(self, spec: TypeTable, new: Sequence[Any]) -> None:
        """Report the classes that the previous graph did not have."""
        self.add(
            spec,
            "new_classes",
            len(new),
            f"{len(new)} classes of {spec.label} ({spec.about}) that the previous graph does not have, behind"
            " its classes",
            [shown(one) for one in new[:SHOWN]],
            "Correct the label, or ingest without --previous and train again.",
        )

    def report_outside(self, spec: TypeTable, feature: FeatureColumn, outside: Outside, check: str) -> None:
        """Report the values of a feature for which its transform was not fitted, if there are any."""
        meaning = {
            "unknown_categories": "with a category that no training row has, which becomes zeros",
            "new_categories": "that the previous graph does not have, whose codes follow its codes",
            "out_of_range": "outside of the least and the largest value of the training rows",
        }
        if outside.count:
            self.add(
                spec,
                check,
                outside.count,
                f"{count_of(outside.count, 'value')} of {feature.column} in {self.sources[spec.name].name}"
                f" (feature {feature.name!r} of {spec.name!r}) {meaning[check]}",
                [shown(one) for one in outside.first],
                "Correct the rows, or ingest without --previous, which fits the transforms again.",
            )

    def report_classes(self, spec: TypeTable, lost: Sequence[Any], count: int) -> None:
        """Report the classes that have no training node; ``count`` is the number of all classes."""
        self.add(
            spec,
            "missing_classes",
            len(lost),
            f"{len(lost)} of {count} classes of {spec.label} ({spec.about}) have no training node",
            [some_of([shown(one) for one in lost], 5)],
            "Correct the split, or set on_defect: {missing_classes: warn}.",
        )

    def check_numbers(self, spec: TypeTable) -> None:
        """Reject a column of numbers or times that has text, with the first values that are neither."""
        features = [f for f in spec.features if f.transform not in CATEGORIES and not f.separator]
        columns = [(f"feature {f.name!r}", name) for f in features for name in f.parts]
        splits = [one.split for one in (spec, *spec.labels.values()) if one.split is not None]
        columns += [("split", split.time) for split in splits if split.time]
        for use, column in columns:
            if not pa.types.is_string(self.sources[spec.name].schema.field(column).type):
                continue

            rows: list[str] = []
            for kinds in (["float64", "timestamp"], ["float64"]):  # or numbers beside times
                condition = partial(_is_none_of, name=column, kinds=kinds)
                rows = rows or self._rows(spec, condition, [*spec.keys, column], 3)
            others = ", use the transform one-hot or hash, or list the column under 'text'"
            empty = not self.sources[spec.name].rows
            what = "no type" if empty else "text"
            raise InvalidInputError(
                f"{spec.about}: {use}: the column {column!r} has {what}",
                found=rows or ("a table without rows" if empty else "numbers, written as text"),
                expected="numbers or times",
                remedy=f"Correct the rows{'' if use == 'split' else others}."
                if rows
                else f"Set its type in graph.yaml: types: {{{column}: float64}}.",
            )

    def reject_not_finite(self, spec: TypeTable, feature: FeatureColumn) -> None:
        """Reject a feature that would be fitted on numbers that are not finite, with their first rows."""
        what = "missing: mean" if feature.transform == "none" else feature.transform
        schema, rows = self.sources[spec.name].schema, list[str]()
        for column in feature.parts:
            if pa.types.is_floating(schema.field(column).type):
                condition = partial(_is_not_finite, name=column)
                rows += self._rows(spec, condition, [*spec.keys, column], SHOWN - len(rows))
        raise InvalidInputError(
            f"{spec.about}: feature {feature.name!r}: {what!r} cannot be fitted on values that are"
            " not finite",
            found=rows or "NaN or infinity in a row",
            expected="finite numbers",
            remedy="Correct the rows, or leave them empty and set 'missing' of the feature in graph.yaml.",
        )

    def reject_text(self, spec: TypeTable, feature: FeatureColumn, text: str) -> None:
        """Reject a text that is no list of numbers, with its first rows."""
        name = feature.column
        raise InvalidInputError(
            f"{spec.about}: feature {feature.name!r}: a text in {name!r} is no list of numbers",
            found=self._rows(spec, lambda t: t[name] == text, [*spec.keys, name], 3) or repr(text),
            expected=f"numbers with {feature.separator!r} between them, such as [0.5, 1]",
            remedy="Correct the rows, or 'separator' of the feature.",
        )

    def add(
        self,
        spec: TypeTable,
        check: str,
        count: int,
        sentence: str,
        examples: list[str],
        remedy: str,
        default: str = "fail",
    ) -> None:
        """Note a finding with the action that the type has for it."""
        action = spec.actions.get(check, default)
        self.problems.append(Problem(check, spec.name, sentence, count, action, examples, remedy))

    def _report_null_keys(self, spec: TypeTable, columns: Sequence[str], count: int) -> None:
        """Report the rows of nodes or edges without a key, if there are any."""
        if count:
            self.add(
                spec,
                "null_keys",
                count,
                f"{count_of(count, 'row')} of {self.sources[spec.name].name} ({spec.about})"
                f" without a key in {', '.join(columns)}",
                self._rows(spec, lambda t: key_of(t, columns, True).isnull(), columns),
                "Correct the rows, or leave them out with on_defect: {null_keys: drop}.",
            )

    def _keys_of(self, numbered: Numbered) -> ibis.Table:
        """Return the keys of a type for DuckDB, which finds rows for messages whatever the engine is."""
        return self.duckdb.table("all_keys", [numbered.keys], key_schema(numbered.as_text))

    def _rows(
        self,
        spec: TypeTable,
        condition: Callable[[ibis.Table], Any],
        columns: Sequence[str],
        limit: int = SHOWN,
    ) -> list[str]:
        """Return a sentence for each of the first rows of a table that fulfil a condition.

        Args:
            spec: The type of the table.
            condition: Takes the table as an Ibis expression, and returns a condition.
            columns: Columns whose values are shown, beside the file and the row (from 0).
            limit: Most rows.
        """
        source, columns = self.sources[spec.name], list(dict.fromkeys(columns))
        table = self.duckdb.indexed("located", source.paths, source.schema)
        if isinstance(spec, EdgeTable) and spec.value:
            table = table.filter(table[spec.relation].cast("string") == spec.value)
        chosen = table.filter(condition(table)).select(*columns, FILE_INDEX, ROW_INDEX)
        return [
            f"{', '.join(f'{name} {shown(row[name])}' for name in columns)}"
            f" in {source.names[row[FILE_INDEX]]}, row {row[ROW_INDEX]}"
            for row in self.duckdb.rows(chosen.order_by(FILE_INDEX, ROW_INDEX).limit(limit))
        ]


def _is_not_finite(table: ibis.Table, name: str) -> Any:
    """Return a condition; with ``isnan``, DuckDB 2.0 finds no NaN in a file whose statistics have none."""
    return table[name].cast("string").isin(["nan", "inf", "-inf"])


def _is_none_of(table: ibis.Table, name: str, kinds: Sequence[str]) -> Any:
    """Return a condition: there is a text, which is no value of some types."""
    return ibis.and_(table[name].notnull(), *(table[name].try_cast(kind).isnull() for kind in kinds))


def _is_twice(table: ibis.Table, columns: Sequence[str]) -> Any:
    """Return a condition: several rows have the key, and it is one of the first such keys."""
    key = key_of(table, columns, True)
    keys = table.select(key=key).filter(key.notnull()).group_by("key").agg(n=lambda t: t.count())
    return key.isin(keys.filter(keys.n > 1).order_by("key").limit(5).key)
