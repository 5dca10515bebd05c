"""``index.json`` of a graph: the figures of its published runs, for pages that list many graphs and runs.

``publish`` adds a run and ``retain`` leaves removed ones out. The index repeats what the runs themselves
say, so that it can be made again at any time.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection
from contextlib import suppress
from typing import Any

from partition_ops.artifacts import layout
from partition_ops.artifacts.book import read_book
from partition_ops.artifacts.documents import read_document
from partition_ops.artifacts.manifest import published_at, read_manifest, read_validation_report
from partition_ops.artifacts.records import read_record
from partition_ops.artifacts.run_figures import seconds_by_stage, summary
from partition_ops.artifacts.verified_run import read_migration
from partition_ops.errors import InvalidInputError
from partition_ops.formats.format import main_config
from partition_ops.storage import Store
from partition_ops.system.json_documents import check_document
from partition_ops.system.parallel import map_in_threads

INDEX_VERSION = 1
READERS = 8  # runs read at a time
OPTIONS_OF = "validate", "partition", layout.PLAN_TASK  # tasks whose options an entry has
Entry = dict[str, Any]
_checked: dict[str, bytes] = {}
"""SHA-256 of the content that fulfilled the schema last, by URI.

Pages of graphs read the same indexes again and again. For 1,000 runs of 100 graphs, their checks take a third
of the processor time of these readings; see docs/decisions/airflow.md.
"""


def read_index(root: Store) -> list[Entry]:
    """Return the figures of the published runs of a graph, oldest first.

    Args:
        root: Root of the graph, with ``runs/``.

    Returns:
        Entries as ``schemas/index.schema.json`` describes them. If there is no index, or it is broken, they
        are read from the runs; nothing is written. An entry of a broken run has only ``run``,
        ``published`` and ``broken``, the reason.
    """
    known = _stored(root)
    return _from_runs(root) if known is None else known


def add_run(root: Store, run: Store) -> None:
    """Add a run to the index of its graph, or renew its entry. The caller holds the lock of the graph.

    Args:
        root: Root of the graph.
        run: Root of the published run, below ``runs/``.
    """
    known = _stored(root)
    if known is None:
        _write(root, _from_runs(root))
        return
    name = run_name(run.uri)
    others = [entry for entry in known if entry["run"] != name]
    _write(root, sorted([*others, _entry(root, name)], key=_order))


def leave_out(root: Store, names: Collection[str]) -> None:
    """Leave removed runs out of the index; nothing happens if there is none.

    Args:
        root: Root of the graph.
        names: Names of the folders of the runs below ``runs/``.
    """
    known = _stored(root)
    if known is not None and not {entry["run"] for entry in known}.isdisjoint(names):
        _write(root, [entry for entry in known if entry["run"] not in names])


def _stored(root: Store) -> list[Entry] | None:
    where = root.uri_of(layout.INDEX)
    try:
        data = root.read_bytes(layout.INDEX)
        document: dict[str, list[Entry]] = root.parse_json(layout.INDEX, data)
        digest = hashlib.sha256(data).digest()
        if _checked.get(where) != digest:
            check_document(document, "index", where=where)
            _checked[where] = digest
    except InvalidInputError:  # missing or broken: it is made again
        return None
    return document["runs"]


def _write(root: Store, entries: list[Entry]) -> None:
    document = {"version": INDEX_VERSION, "runs": entries}
    check_document(document, "index", where=root.uri_of(layout.INDEX))
    root.write_json(layout.INDEX, document)


def _from_runs(root: Store) -> list[Entry]:
    depth = len(f"{layout.RUNS}/x/{layout.MANIFEST}".split("/"))
    keys = (entry.key.split("/") for entry in root.list(f"{layout.RUNS}/"))
    names = [key[1] for key in keys if len(key) == depth and key[-1] == layout.MANIFEST]
    return sorted(map_in_threads(lambda name: _entry(root, name), names, workers=READERS), key=_order)


def _entry(root: Store, name: str) -> Entry:
    run = root.child(f"{layout.RUNS}/{name}")
    entry: Entry = {"run": name, "published": published_at(run)}
    try:
        return entry | _figures(run)
    except (InvalidInputError, KeyError, TypeError, ValueError) as error:
        reason = (
            error.summary() if isinstance(error, InvalidInputError) else f"{type(error).__name__}: {error}"
        )
        return entry | {"broken": reason}


def _figures(run: Store) -> Entry:
    manifest = read_manifest(run)
    report = read_document(run, layout.QUALITY_REPORT, "quality_report")
    book = read_book(run, manifest["graph_name"])
    defects: Counter[str] = Counter()
    for defect in read_validation_report(run)["defects"]:
        defects[defect["check"]] += defect["count"]
    options = manifest["options"]
    return {
        **summary(report),
        "engine": options["partition"].get("engine", "unknown"),
        **_chosen(run),
        "formats": [*book.formats],
        "partition_config": main_config(book),
        "input": manifest["input"]["uri"],
        "options": {task: options[task] for task in OPTIONS_OF if task in options},
        "defects": {check: count for check, count in defects.items() if count},
        "seconds": seconds_by_stage(run),
        **_previous(run),
        **_approval(run),
    }


def draft_entry(run: Store) -> Entry:
    """Return the figures of a run whose ``quality`` has been done, and that is not published.

    Raises:
        InvalidInputError: The report is missing or broken.
    """
    return {
        "run": run_name(run.uri),
        **summary(read_document(run, layout.QUALITY_REPORT, "quality_report")),
        "options": {task: read_record(run, task)["options"] for task in OPTIONS_OF},
        "seconds": seconds_by_stage(run),
        **_previous(run),
    }


def _approval(run: Store) -> Entry:
    """Return the answer of a person to partitions that do not pass the gate, if there is one."""
    with suppress(InvalidInputError):
        return {"approval": run.read_json(layout.APPROVAL)} if run.exists(layout.APPROVAL) else {}
    return {}


def _chosen(run: Store) -> Entry:
    """Return the engine that ``auto`` chose, if the record of ``partition`` is there and says so."""
    with suppress(InvalidInputError):  # records are not artifacts
        chosen = read_record(run, "partition")["counters"].get("chosen")
        return {"chosen": chosen} if isinstance(chosen, str) else {}
    return {}


def _previous(run: Store) -> Entry:
    migration = read_migration(run)
    return {} if migration is None else {"previous": migration["previous"]["run"]}


def run_name(uri: str) -> str:
    """Return the folder name of a run from its URI, whatever address of the root the URI has."""
    return uri.rstrip("/").rpartition("/")[2]


def _order(entry: Entry) -> tuple[str, str]:
    return (entry["published"], entry["run"])
