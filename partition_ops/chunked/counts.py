"""The counts of ``metadata.json``, in both of their spellings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from partition_ops.errors import InvalidInputError

Counts = tuple[tuple[tuple[int, ...] | None, ...], tuple[int, ...]]


def read_counts(document: Mapping[str, Any], what: str, types: Sequence[str], where: str) -> Counts:
    """Counts by chunk (None where unknown) and in total, by type ID.

    Args:
        document: A parsed ``metadata.json``.
        what: ``nodes`` or ``edges``.
        types: Names by type ID.
        where: URI of the document, for messages.

    Raises:
        InvalidInputError: There are no counts, too few or too many, or they contradict each other.
    """
    chunk_key, type_key = f"num_{what}_per_chunk", f"num_{what}_per_type"
    if chunk_key not in document and type_key not in document:
        raise InvalidInputError(
            f"{where}: no counts of {what}", expected=f"{chunk_key!r} or {type_key!r} with an entry a type"
        )
    for key in (chunk_key, type_key):
        if key in document and len(document[key]) != len(types):
            raise InvalidInputError(
                f"{where}: {key!r} does not fit the list of types",
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
    """For JSON Schema, 3.0 is an integer as well."""
    return tuple(int(count) for count in counts)
