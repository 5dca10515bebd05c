"""Number the nodes of each type: keys in ascending order get the IDs 0, 1, 2, …

The numbers are the rows of a file of keys, so they are contiguous, and they depend on the keys and not on the
order of rows or on the engine. In a grown graph the old keys come first, as they were; those that are gone
keep their IDs, or are left out (``on_removed`` in ``graph.yaml``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import ibis
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from partition_ops.chunked.graph_writer import ORIG_ID, blocks_of
from partition_ops.errors import InvalidInputError
from partition_ops.stages.ingest.findings import Findings
from partition_ops.stages.ingest.graph_types import NodeTable
from partition_ops.stages.ingest.keys import KEY, NO_IDS, Ends, Ids, Numbered, key_schema, keys_are_text

KEYS = 1 << 17  # in a row group


def number_nodes(
    index: int,
    node: NodeTable,
    own: Ends | None,
    others: Sequence[Ends],
    old: Sequence[Path],
    findings: Findings,
    scratch: Path,
) -> Numbered:
    """Number the nodes of a type.

    Args:
        index: Node type ID.
        node: The node type.
        own: The keys of its table, if it has one.
        others: The keys that edges name.
        old: Files of keys of the previous graph, in order.
        findings: Takes what is wrong with keys; its engine joins and sorts.
        scratch: Folder for the file of keys.

    Raises:
        InvalidInputError: Columns of keys have wrong types, or old nodes are gone.

    Peak memory: that of the engine, and a block of keys.
    """
    engine = findings.engine
    as_text = keys_are_text([*([own] if own else []), *others])
    schema = key_schema(as_text)
    before = None
    if old:
        _check_same_keys(node, old[0], as_text)
        before = engine.table(f"old_keys_{index}", old, schema)
    wanted = [*([own] if own else []), *(end for end in others if end.adds or own is None)]
    tables = [end.keys(as_text) for end in wanted]
    keys = ibis.union(*tables, distinct=True) if tables[1:] else tables[0].distinct()
    in_table, unique, gone = 0, True, _Gone(NO_IDS, None)
    alone = own is not None and len(wanted) == 1 and before is None
    if own is not None and not alone:
        in_table, unique = findings.check_keys(node, own, as_text)
    if before is not None:
        if own is not None or node.actions["removed_nodes"] != "fail":
            gone = _find_gone(index, node, wanted, before.anti_join(keys, KEY), findings, scratch, schema)
        keys = keys.anti_join(before.select("key"), KEY)
    path = scratch / f"keys{index}.parquet"
    left_out = gone.ids if node.actions["removed_nodes"] == "renumber" else NO_IDS
    num_old = sum(pq.read_metadata(file).num_rows for file in old) - len(left_out)
    batches, count = chain(_old_batches(old, left_out), engine.batches(keys.order_by(KEY))), 0
    with pq.ParquetWriter(path, schema, use_dictionary=False, compression="zstd") as writer:
        for block in blocks_of(batches, KEYS):
            ids = pa.array(np.arange(count, count + len(block)))
            columns = [ids, block.column(KEY).cast(schema.field(KEY).type)]
            writer.write_table(pa.table(columns, schema=schema), row_group_size=KEYS)
            count += len(block)
    if own is not None and alone:  # the keys are counted already
        in_table, unique = findings.check_keys(node, own, as_text, count)
    table = every = engine.table(f"keys_{index}", [path], schema)
    if gone.keys is not None and not len(left_out):
        table = every.anti_join(gone.keys.select("key"), KEY)
    still = len(gone.ids) - len(left_out)
    if own is not None and count - still > in_table:
        findings.report_added(node, own, table, count - still - in_table, as_text)
    kept = node.actions["removed_nodes"] == "keep"
    isolated = NO_IDS if kept or len(left_out) else gone.ids
    return Numbered(
        keys=path,
        table=every if kept else table,
        as_text=as_text,
        count=count,
        old=num_old,
        unique=unique,
        isolated=isolated,
        left_out=left_out,
        gone=None if kept else gone.keys,
    )


@dataclass(frozen=True)
class _Gone:
    """Nodes of the previous graph that are in no table: their IDs there, ascending, and their keys."""

    ids: Ids
    keys: ibis.Table | None


def _find_gone(
    index: int,
    node: NodeTable,
    wanted: Sequence[Ends],
    gone: ibis.Table,
    findings: Findings,
    scratch: Path,
    schema: pa.Schema,
) -> _Gone:
    """Find the nodes that are gone, and report them.

    Raises:
        InvalidInputError: There are some, and ``on_removed`` is ``fail``.
    """
    if not findings.check_gone(node, wanted, gone):
        return _Gone(NO_IDS, None)
    path, ids = scratch / f"gone{index}.parquet", []
    with pq.ParquetWriter(path, schema) as writer:
        for batch in findings.engine.batches(gone.order_by(ORIG_ID)):
            batch = batch.select([ORIG_ID, KEY]).cast(schema)
            ids.append(batch.column(ORIG_ID).to_numpy())
            writer.write_batch(batch)
    return _Gone(np.concatenate(ids), findings.engine.table(f"gone_{index}", [path], schema))


def _check_same_keys(node: NodeTable, old: Path, as_text: bool) -> None:
    was_text = pa.types.is_string(pq.read_schema(old).field(KEY).type)
    if was_text != as_text:
        raise InvalidInputError(
            f"{node.about}: the keys are not as in the previous graph",
            found="text" if as_text else "whole numbers",
            expected="text" if was_text else "whole numbers",
            remedy="Set the type of the columns of keys with 'types'.",
        )


def _old_batches(old: Sequence[Path], left_out: Ids) -> Iterator[pa.RecordBatch]:
    """Yield the keys of old nodes in the order of their IDs, but not those that are left out."""
    begin = 0
    for path in old:
        with pq.ParquetFile(path, memory_map=True) as file:
            for batch in file.iter_batches(columns=[KEY]):
                kept = still_there(begin, begin + len(batch), left_out)
                begin += len(batch)
                yield batch if len(kept) == len(batch) else batch.take(pa.array(kept - begin + len(batch)))


def still_there(begin: int, end: int, left_out: Ids) -> Ids:
    """Return the IDs from ``begin`` to ``end`` - 1 that are not left out; ``left_out`` is ascending."""
    first, last = np.searchsorted(left_out, (begin, end))
    return np.delete(np.arange(begin, end), left_out[first:last] - begin)
