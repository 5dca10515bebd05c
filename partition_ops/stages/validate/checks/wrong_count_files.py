"""Files that have other numbers of rows than the metadata says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from partition_ops.stages.validate.check import Check, Finding, Findings, GraphFacts, example

if TYPE_CHECKING:
    from partition_ops.stages.validate.graph_facts import EdgeFile, FeatureFacts


def find(facts: GraphFacts) -> Findings:
    for type_id, name, files in facts.edge_files_by_type():
        yield from _in_edges(facts, type_id, name, files)
    for feature in facts.features.values():
        yield from _in_feature(facts, feature)


def _in_edges(facts: GraphFacts, type_id: int, name: str, files: list[EdgeFile]) -> Findings:
    counts, total = facts.metadata.num_edges_per_chunk[type_id], facts.metadata.num_edges[type_id]
    if counts is None:
        rows = [file.rows for file in files if file.rows is not None]
        if len(rows) == len(files) and sum(rows) != total:
            place = _place([file.chunk.key for file in files])
            found = f"{sum(rows)} rows in {place}, where metadata.json says {total}"
            yield Finding(name, [example(found)])
    elif len(counts) == len(files):  # else the check file_counts has a finding
        for file, expected in zip(files, counts, strict=True):
            key, index = file.chunk.key, file.chunk.index
            if file.rows is not None and file.rows != expected:
                found = (
                    f"{file.rows} rows in {key}, where metadata.json says {expected} (num_edges_per_chunk)"
                )
                if facts.metadata.edges[type_id].format.name == "csv" and file.rows < expected:
                    found += _blank_line(facts, key)
                yield Finding(name, [example(found, file=key, chunk=index)])


def _in_feature(facts: GraphFacts, feature: FeatureFacts) -> Findings:
    expected, total = feature.expected_rows_per_chunk, feature.expected_rows
    name, files = feature.feature.key, feature.files
    if expected is not None and len(expected) == len(files):
        for file, count in zip(files, expected, strict=True):
            if file.layout is not None and file.layout.rows != count:
                rows = file.layout.rows
                found = f"{rows} rows in {feature.where(file.index)}, where metadata.json says {count}"
                found += _blank_line(facts, file.key) if feature.is_csv and rows < count else ""
                yield Finding(name, [example(found, file=file.key, chunk=file.index)])
    else:
        counts = [file.layout.rows for file in files if file.layout is not None]
        if len(counts) == len(files) and sum(counts) != total:
            place = _place([file.key for file in files])
            found = f"{sum(counts)} rows in {place}, where the type has {total} nodes or edges"
            yield Finding(name, [example(found)])


def _place(keys: list[str]) -> str:
    """Return where rows were counted."""
    return keys[0] if len(keys) == 1 else f"{len(keys)} files, the first of them {keys[0]}"


def _blank_line(facts: GraphFacts, key: str) -> str:
    """Return what to say of a blank line, which is often the reason; nothing if there is none."""
    from partition_ops.chunked.table_files import blank_line_note

    return blank_line_note(facts.source.local_copy(key))


CHECK = Check(
    name="wrong_count_files",
    finding="a file, or all files of a type together, have another number of rows than the metadata says",
    harm="IDs and features shift silently",
    graph=find,
    counted_in=("edge_types", "features"),
    equal_columns={"edge_types": ("edges", "edges_expected"), "features": ("rows", "rows_expected")},
)
