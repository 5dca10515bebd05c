"""Write the negatives of an edge type: pairs of keys that are no edges, with their parts of a split."""

from __future__ import annotations

from collections.abc import Iterator

import ibis
import pyarrow as pa
import pyarrow.compute as pc

from partition_ops.chunked.graph_writer import DST, SRC, GraphWriter
from partition_ops.stages.ingest.buckets import Buckets
from partition_ops.stages.ingest.columns import MASKS, Columns
from partition_ops.stages.ingest.engines import ROW_KEY
from partition_ops.stages.ingest.features import ColumnWriter
from partition_ops.stages.ingest.findings import Findings
from partition_ops.stages.ingest.graph_types import EdgeTable
from partition_ops.stages.ingest.keys import Numbered, key_of
from partition_ops.stages.ingest.problems import SHOWN, count_of, shown


def write_negatives(
    spec: EdgeTable,
    rows: Iterator[pa.RecordBatch],
    columns: Columns,
    writer: GraphWriter,
    findings: Findings,
) -> tuple[int, int]:
    """Write the pairs of a type, in the order of their ends, and report what is wrong with their split.

    Args:
        spec: The pairs.
        rows: Their rows with the IDs of both ends, null if there are none, as `NumberedRows.of_edges` yields.
        columns: What becomes of the columns: only masks.
        writer: Takes the files.
        findings: Takes what is wrong with rows.

    Returns:
        The numbers of pairs that were written, and of rows without a node.

    Peak memory: a batch.
    """
    split = ColumnWriter(columns, Buckets([], 0), writer, 0, findings)
    file = writer.negatives_file(spec.edge_type, [*MASKS.values()] if spec.split else [])
    lost = 0
    with file:
        for batch in rows:
            block = pa.Table.from_batches([batch]).rename_columns([SRC, DST, *spec.used])
            known = block.filter(pc.and_(block.column(SRC).is_valid(), block.column(DST).is_valid()))
            lost += len(block) - len(known)
            pairs = known.select([SRC, DST])
            if columns.needs_key:
                known = known.append_column(ROW_KEY, ends_as_key(known))
            for name, mask in split.masks_of(known, file.rows).items():
                pairs = pairs.append_column(name, pa.array(mask))
            file.append(pairs)
    split.report(file.rows)
    writer.add_negatives(spec.edge_type, file)
    return file.rows, lost


def ends_as_key(rows: pa.Table) -> pa.ChunkedArray:
    """Return what the part of an edge without a key follows from: the IDs of its ends."""
    ends = (rows.column(end).cast(pa.string()) for end in (SRC, DST))
    return pc.binary_join_element_wise(*ends, " ")


def report_false_negatives(
    findings: Findings, pairs: EdgeTable, edge: EdgeTable, src: Numbered, dst: Numbered
) -> None:
    """Report the negatives of an edge type that are edges of it, by their keys.

    Args:
        findings: Takes the finding, and has the tables.
        pairs: The negatives.
        edge: The edges.
        src: Keys of the sources of both.
        dst: Keys of the destinations.
    """

    def keys(one: EdgeTable) -> ibis.Table:
        table = findings.tables[one.name]
        ends = {"src": key_of(table, one.src, src.as_text), "dst": key_of(table, one.dst, dst.as_text)}
        return table.select(**ends)

    known = keys(pairs).semi_join(keys(edge), ["src", "dst"])
    count = int(findings.engine.one(known.aggregate(n=known.count()))["n"])
    if count:
        first = findings.engine.rows(known.distinct().order_by("src", "dst").limit(SHOWN))
        findings.add(
            pairs,
            "false_negatives",
            count,
            f"{count_of(count, 'row')} of {findings.sources[pairs.name].name} ({pairs.about}) that"
            f" {findings.sources[edge.name].name} has as an edge",
            [f"{shown(row['src'])} to {shown(row['dst'])}" for row in first],
            "Leave these pairs out, or set on_defect: {false_negatives: warn}.",
        )
