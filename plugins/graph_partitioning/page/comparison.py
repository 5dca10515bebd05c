"""Two runs of a graph side by side."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from graph_partitioning.lineage import types_of
from graph_partitioning.page.graphs import titled
from graph_partitioning.page.words import readable_size
from partition_ops.artifacts.layout import INGEST
from partition_ops.artifacts.manifest import read_manifest
from partition_ops.artifacts.records import read_record
from partition_ops.errors import InvalidInputError
from partition_ops.stages.publish.run_index import run_name
from partition_ops.storage import Store

Entry = Mapping[str, Any]
InputFiles = Mapping[str, tuple[str, str]]  # by path: the size as text, and what identifies the content
Table = tuple[str, list[str], list[list[str]]]
SHOWN = 50  # files in a table
FIGURES = {
    "partitions": ("num_parts", "{:,.0f}".format),
    "nodes": ("num_nodes", "{:,.0f}".format),
    "edges": ("num_edges", "{:,.0f}".format),
    "edges cut": ("edge_cut", "{:.2%}".format),
    "worst type imbalance": ("worst_imbalance", "{:.3f}".format),
    "replication factor": ("replication_factor", "{:.3f}".format),
    "remote rows a batch, slowest trainer": ("slowest_rows", "{:,.0f}".format),
    "slowest trainer over the mean": ("slowest_ratio", "{:.3f}".format),
    "size": ("bytes", readable_size),
}


def compare_runs(entries: tuple[Entry, Entry], reports: tuple[Entry, Entry]) -> tuple[list[Table], str]:
    """Return tables of what differs between two runs, and a sentence about what moved.

    Args:
        entries: Their entries in the index of the graph.
        reports: Their ``quality/report.json``.
    """
    figures = []
    for title, (name, show) in FIGURES.items():
        a, b = (one.get(name) for one in entries)  # runs of earlier versions have fewer
        change = f"{(b - a) / a:+.1%}" if a and b is not None and a != b else ""
        figures.append([title, *("" if value is None else show(value) for value in (a, b)), change])
    before, after = (_options(one) for one in entries)
    seconds = [{name: f"{value:.1f}" for name, value in one["seconds"].items()} for one in entries]
    options = [row for row in _side_by_side(before, after) if before.get(row[0]) != after.get(row[0])]
    tables = [
        ("Figures", ["figure", "A", "B", "change"], figures),
        ("Options that differ", ["option", "A", "B"], options),
        ("Seconds by stage", ["stage", "A", "B"], _side_by_side(*seconds)),
        _types("Node types: imbalance", "node_types", "imbalance", "{:.3f}", reports),
        _types("Edge types: share cut", "edge_types", "cut_fraction", "{:.2%}", reports),
        _partitions(reports),
        _trainers(reports),
    ]
    return tables, _moved(entries, reports)


def differs(row: list[str]) -> bool:
    """Return whether a row of `compare_runs`, a name and pairs of cells, differs between the two runs."""
    return any(a != b for a, b in zip(row[1::2], row[2::2], strict=False))


def read_inputs(run: Store) -> InputFiles:
    """Return the files that a finished run was made from: those of the chunked graph, or the tables.

    Raises:
        InvalidInputError: The run has no manifest, or it is broken.
    """
    recorded = read_manifest(run)["input"]
    if str(recorded["uri"]).endswith(f"/{INGEST}"):
        with suppress(InvalidInputError):  # a folder of this name that ingest did not write
            return _tables(read_record(run.child(INGEST), "ingest"))
    return {file["path"]: (f"{file['size']:,}", file["sha256"]) for file in recorded["files"]}


def _tables(record: Entry) -> InputFiles:
    """Return the tables that ``ingest`` has read, below the folder that all of them are in."""
    common = os.path.commonprefix([one["path"] for one in record["inputs"]])  # noqa: RUF071 (a URI is no path)
    above = common[: common.rfind("/") + 1]
    found = {
        one["path"].removeprefix(above): (f"{one['size']:,}", str(one["tag"])) for one in record["inputs"]
    }
    described = record["options"].get("graph")
    return found | ({} if described is None else {"graph.yaml": ("", json.dumps(described))})


def input_changes(old: InputFiles, new: InputFiles) -> Table:
    """Return a table of the input files that differ between two runs; at most `SHOWN`."""
    rows = []
    for path in sorted(old.keys() | new.keys()):
        if path not in new:
            rows.append([path, "removed", old[path][0], ""])
        elif path not in old:
            rows.append([path, "added", "", new[path][0]])
        elif old[path][1] != new[path][1]:
            rows.append([path, "changed", old[path][0], new[path][0]])
    if len(rows) > SHOWN:
        rows = [*rows[:SHOWN], [f"and {len(rows) - SHOWN:,} more files", "", "", ""]]
    return "Input files that differ", ["file", "change", "bytes A", "bytes B"], rows


def schema_changes(before: Entry, after: Entry) -> Table:
    """Return a table of types with counts and features with dtypes, in two validation reports."""
    described = []
    for report in (before, after):
        found = {}
        for one in types_of(report):
            found[one["name"]] = f"{one['type']}, {one['description']}"
            found |= {f"{one['name']}/{name}": dtype for name, dtype in one["features"]}
        described.append(found)
    return "Schema", ["type or feature", "A", "B"], _side_by_side(*described)


def _options(entry: Entry) -> dict[str, str]:
    """Return the options of a run by their titles, with the previous run by its name, not its digest."""
    options = dict(entry["options"])
    if "partition" in options:
        options["partition"] = partition = {**options["partition"]}
        partition.pop("num_nodes", None)  # nobody has chosen it: the schema shows the counts of nodes
        if entry.get("previous") and "previous" in partition:
            partition["previous"] = run_name(str(entry["previous"]))
    return titled(options)


def _side_by_side(a: Mapping[str, str], b: Mapping[str, str]) -> list[list[str]]:
    return [[name, a.get(name, ""), b.get(name, "")] for name in dict.fromkeys([*a, *b])]


def _types(title: str, group: str, figure: str, form: str, reports: tuple[Entry, Entry]) -> Table:
    texts = [{name: form.format(one[figure]) for name, one in report[group].items()} for report in reports]
    return title, ["type", "A", "B"], _side_by_side(*texts)


def _partitions(reports: tuple[Entry, Entry]) -> Table:
    a, b = (report["partitions"] for report in reports)
    head = ["partition", "inner nodes A", "B", "halo nodes A", "B", "edges cut A", "B"]
    rows = []
    for part in range(max(len(a), len(b))):
        cells = [str(part)]
        for name in ("inner_nodes", "halo_nodes", "cut_edges"):
            cells += [f"{one[part][name]:,}" if part < len(one) else "" for one in (a, b)]
        rows.append(cells)
    return "Partitions", head, rows


def _trainers(reports: tuple[Entry, Entry]) -> Table:
    """Return what each trainer is expected to fetch; no rows if neither report says it."""
    a, b = (report.get("training", {}).get("partitions", []) for report in reports)
    head = ["trainer", "train nodes A", "B", "remote rows a batch A", "B", "remote neighbours A", "B"]
    forms = {"seeds": "{:,}", "remote_rows_per_batch": "{:,.1f}", "remote_neighbour_share": "{:.2%}"}
    rows = []
    for part in range(max(len(a), len(b))):
        cells = [str(part)]
        for name, form in forms.items():
            cells += [form.format(one[part][name]) if part < len(one) else "" for one in (a, b)]
        rows.append(cells)
    return "Training", head, rows


def _moved(entries: tuple[Entry, Entry], reports: tuple[Entry, Entry]) -> str:
    for this, other, names in ((1, 0, "BA"), (0, 1, "AB")):
        migration = reports[this].get("migration")
        previous = str(entries[this].get("previous", ""))
        if migration and run_name(previous) == entries[other]["run"]:
            types = migration["node_types"].items()
            moved = ", ".join(
                f"{one['moved']:,} of {one['old']:,} old nodes of {name!r}" for name, one in types
            )
            return f"{names[0]} continues {names[1]}: {moved} have another partition."
    return "Neither run continues the other, so this was not recorded: all nodes may have another partition."
