"""Number the nodes of each type: keys in ascending order get the IDs 0, 1, 2, …

The numbers are the rows of a file of keys, so they are contiguous, and they depend on the keys and not on the
order of rows or on the engine. In a grown graph the old keys come first, as they were.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path

import ibis
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from partition_ops.chunked.graph_writer import blocks_of
from partition_ops.errors import InvalidInputError
from partition_ops.stages.ingest.findings import Findings
from partition_ops.stages.ingest.graph_types import NodeTable
from partition_ops.stages.ingest.keys import KEY, Ends, Numbered, key_schema, keys_are_text

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
    in_table, unique = 0, True
    if own is not None:
        in_table, unique = findings.check_keys(node, own, as_text)
        if before is not None:
            findings.check_gone(node, wanted, before, keys)
    if before is not None:
        keys = keys.anti_join(before.select("key"), KEY)
    path = scratch / f"keys{index}.parquet"
    num_old = sum(pq.read_metadata(file).num_rows for file in old)
    batches, count = chain(_old_batches(old), engine.batches(keys.order_by(KEY))), 0
    with pq.ParquetWriter(path, schema, use_dictionary=False, compression="zstd") as writer:
        for block in blocks_of(batches, KEYS):
            ids = pa.array(np.arange(count, count + len(block)))
            columns = [ids, block.column(KEY).cast(schema.field(KEY).type)]
            writer.write_table(pa.table(columns, schema=schema), row_group_size=KEYS)
            count += len(block)
    table = engine.table(f"keys_{index}", [path], schema)
    if own is not None and count > in_table:
        findings.report_added(node, own, table, count - in_table, as_text)
    return Numbered(path, table, as_text, count, num_old, unique)


def _check_same_keys(node: NodeTable, old: Path, as_text: bool) -> None:
    was_text = pa.types.is_string(pq.read_schema(old).field(KEY).type)
    if was_text != as_text:
        raise InvalidInputError(
            f"{node.about}: the keys are not as in the previous graph",
            found="text" if as_text else "whole numbers",
            expected="text" if was_text else "whole numbers",
            remedy="Set the type of the columns of keys with 'types'.",
        )


def _old_batches(old: Sequence[Path]) -> Iterator[pa.RecordBatch]:
    for path in old:
        with pq.ParquetFile(path, memory_map=True) as file:
            yield from file.iter_batches(columns=[KEY])
