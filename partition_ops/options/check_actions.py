"""Every check by name: how bad a finding is, what may be done about it, and what goes wrong without it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from partition_ops.errors import UsageError

ACTIONS = ("fail", "exclude", "drop", "warn")


@dataclass(frozen=True)
class Check:
    """A check of the validate stage.

    Attributes:
        name: As in the report, the options and the metrics.
        severity: ``error``, ``warning`` or ``information``.
        actions: What a user may choose to do about a finding, the default first.
        finding: What a finding is.
        harm: What goes wrong without the check.
    """

    name: str
    severity: str
    actions: tuple[str, ...]
    finding: str
    harm: str


def _fatal(name: str, finding: str, harm: str) -> Check:
    return Check(name, "error", ("fail",), finding, harm)


CHECKS = {
    check.name: check
    for check in (
        _fatal(
            "metadata",
            "metadata.json is not as its schema says, contradicts itself, or names what cannot be read",
            "the run stops hours later, features get lost, or files outside the graph's folder are read",
        ),
        _fatal("missing_files", "a file that the metadata names is not there", "the run stops hours later"),
        _fatal("unreadable_files", "a file cannot be read in its format", "the run stops hours later"),
        _fatal(
            "file_counts",
            "an edge type has another number of files than of counts",
            "chunks are matched with the wrong counts, and IDs shift",
        ),
        _fatal(
            "wrong_count_files",
            "a file, or all files of a type together, have another number of rows than the metadata says",
            "IDs and features shift silently",
        ),
        _fatal("wrong_column_rows", "a row has not two columns", "it is no edge"),
        _fatal("non_integer_rows", "an ID is no integer of 64 bits", "it is no ID"),
        _fatal("null_ids", "an ID is missing", "it is no edge"),
        _fatal(
            "out_of_range_ids",
            "an ID is below zero or not below the number of nodes of its type",
            "on homogeneous IDs the edge would end at a node of another type",
        ),
        _fatal(
            "layout_mismatches",
            "chunks of a feature differ in dtype or in the shape of a row",
            "values are converted silently, or the run stops hours later",
        ),
        _fatal("unsupported_dtype", "a feature is not made of numbers", "DGL's files cannot hold it"),
        Check(
            "duplicate_edges",
            "error",
            ("fail", "exclude", "drop", "warn"),
            "an edge has the two ends of an earlier edge of its type",
            "METIS and ParMETIS corrupt memory or fail on them; messages are counted twice in training",
        ),
        Check(
            "self_loop_edges",
            "error",
            ("fail", "exclude", "drop", "warn"),
            "an edge begins and ends at the same node",
            "METIS and ParMETIS fail on them; layers that add self-loops count them twice",
        ),
        Check(
            "nonfinite_values",
            "warning",
            ("warn", "fail"),
            "a floating-point feature holds NaN or infinity",
            "the loss becomes NaN after the first batch that meets one",
        ),
        Check(
            "unknown_keys",
            "warning",
            ("warn", "fail"),
            "metadata.json has a key that the format does not know, or edges of a type that it does not list",
            "the features of a misspelt section, or the edges, are lost without a word",
        ),
        Check(
            "expectations",
            "error",
            ("fail",),
            "an expectation of the user's own suites is not met",
            "whatever the user wants to be safe from; an expectation with the action warn only warns",
        ),
        Check(
            "parallel_edges",
            "information",
            ("warn", "fail"),
            "edges of several types join the same two nodes in the same direction",
            "nothing: the partitioner sees them as one edge",
        ),
        Check(
            "reversed_edges",
            "information",
            ("warn", "fail"),
            "there are edges in both directions between two nodes",
            "nothing: the partitioner sees them as one edge",
        ),
    )
}


def choices() -> dict[str, tuple[str, ...]]:
    """The checks about which a user has a choice, with what may be chosen, the default first."""
    return {name: check.actions for name, check in CHECKS.items() if len(check.actions) > 1}


def parse_actions(texts: Iterable[str]) -> dict[str, str]:
    """Actions by check, from ``CHECK=ACTION``, or ``ACTION`` alone for duplicates and self-loops."""
    chosen: dict[str, str] = {}
    for text in texts:
        name, separator, action = text.rpartition("=")
        names = (name,) if separator else ("duplicate_edges", "self_loop_edges")
        chosen |= dict.fromkeys(names, action)
    return chosen


def checked_actions(chosen: str | Mapping[str, str]) -> dict[str, str]:
    """The action of every check about which there is a choice.

    Args:
        chosen: Actions by check, or one for duplicate and self-loop edges; others keep their default.

    Raises:
        UsageError: There is no such check, or it has no such action.
    """
    known = choices()
    chosen = parse_actions([chosen]) if isinstance(chosen, str) else chosen
    for name, action in chosen.items():
        if name not in known:
            raise UsageError(
                f"There is no choice about a check {name!r}", expected="one of " + ", ".join(known)
            )
        if action not in known[name]:
            raise UsageError(f"{name} cannot be {action!r}", expected="one of " + ", ".join(known[name]))
    return {name: chosen.get(name, actions[0]) for name, actions in known.items()}
