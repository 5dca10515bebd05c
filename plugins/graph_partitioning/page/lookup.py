"""What the page shows: roots of runs from Airflow's database, and files of a run.

The files are the artifacts in the record of a task, or the files of a failed validation. No other files
of the storage are served.
"""

from __future__ import annotations

import re
from base64 import b64encode
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from airflow.models.taskinstance import TaskInstance
from airflow.models.xcom import XComModel
from sqlalchemy import select
from sqlalchemy.orm import Session

from graph_partitioning.hooks.storage import GraphStorageHook
from graph_partitioning.runs import XCOM_KEY, GraphRun, is_run_root
from partition_ops.artifacts.layout import MANIFEST, QUALITY_PAGE, SCRATCH, SPEEDS, TIMES
from partition_ops.errors import InvalidInputError
from partition_ops.storage import StoredObject
from partition_ops.system.json_documents import check_document

PUBLISHING = "PublishRunOperator"
SAME_TASK = (
    (XComModel.dag_id == TaskInstance.dag_id)
    & (XComModel.run_id == TaskInstance.run_id)
    & (XComModel.task_id == TaskInstance.task_id)
    & (XComModel.map_index == TaskInstance.map_index)
)
RECORD = re.compile(r"records/[A-Za-z0-9_.-]+\.json")
FINDINGS = re.compile(r"validation/(report\.json|data_docs/([a-z_]+/)?[a-z_]+\.html)")
"""Files that ``validate`` writes before it fails, when no record lists them."""
SHOWN_AS = {
    ".csv": "text/plain; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".json": "application/json",
    ".txt": "text/plain; charset=utf-8",
}
"""Media types of the files that a browser shows; all others are downloads."""


@dataclass(frozen=True)
class TaskKey:
    """A task instance, as in the URL of its page."""

    dag_id: str
    run_id: str
    task_id: str
    map_index: int


def graph_run(session: Session, task: TaskKey) -> GraphRun | None:
    """Return the XCom of the task, if its root can only be that of this DAG run.

    Users with the permission can edit XComs. The check keeps the page from reading other files after such an
    edit.
    """
    row = session.scalar(select(XComModel).filter_by(**vars(task), key=XCOM_KEY))
    value = None if row is None else XComModel.deserialize_value(row)
    return None if value is None else checked_run(value, task.run_id)


def tasks_of_run(session: Session, dag_id: str, run_id: str) -> list[TaskKey]:
    """Return the tasks of a DAG run that have a page, in the order in which they started."""
    rows = session.execute(
        select(TaskInstance.task_id, TaskInstance.map_index)
        .join(XComModel, SAME_TASK)
        .where(TaskInstance.dag_id == dag_id, TaskInstance.run_id == run_id, XComModel.key == XCOM_KEY)
        .order_by(TaskInstance.start_date, TaskInstance.task_id, TaskInstance.map_index)
    )
    return [TaskKey(dag_id, run_id, task_id, map_index) for task_id, map_index in rows]


def checked_run(value: Any, run_id: str) -> GraphRun | None:
    """Return the XCom of a task as a `GraphRun`, or None if it is not that of this DAG run."""
    try:
        run = GraphRun(**value)
    except TypeError:
        return None
    if not isinstance(run.root, str) or not isinstance(run.others, list):
        return None
    return run if is_run_root(run.root, run_id) else None


@dataclass(frozen=True)
class Listing:
    """The artifacts of a task.

    Attributes:
        key: Key of the document that says so: the record of the task, or the manifest of the whole run.
        document: Its content.
    """

    key: str
    document: dict[str, Any]

    @property
    def artifacts(self) -> list[dict[str, Any]]:
        """Artifacts without scratch files, which are removed when the run is published."""
        return [entry for entry in self.document["artifacts"] if not entry["key"].startswith(f"{SCRATCH}/")]

    @property
    def scratch(self) -> int:
        """Number of scratch files."""
        return len(self.document["artifacts"]) - len(self.artifacts)

    def may_serve(self, key: str) -> bool:
        return key == self.key or any(entry["key"] == key for entry in self.artifacts)


def read_listings(run: GraphRun) -> list[Listing]:
    """Return the artifacts of the task, for each of its records; there are none until it has succeeded.

    Raises:
        PartitionOpsError: The storage cannot be reached, or the document is broken.
    """
    if run.record is None:
        return []
    keys = [run.record, *run.others]
    for key in keys:
        if key != MANIFEST and not RECORD.fullmatch(str(key)):
            raise InvalidInputError("The task names a key that is not a record", found=repr(key))
    listings = []
    with GraphStorageHook(run.storage_conn_id).open(run.root) as store:
        for key in keys:
            document = store.read_json(key)
            check_document(document, "manifest" if key == MANIFEST else "record", where=store.uri_of(key))
            listings.append(Listing(key, document))
    return listings


def read_findings(run: GraphRun) -> list[StoredObject]:
    """Return the files of a validation of this run, whether or not it has succeeded.

    Raises:
        PartitionOpsError: The storage cannot be reached.
    """
    with GraphStorageHook(run.storage_conn_id).open(run.root) as store:
        return [entry for entry in store.list("validation/") if FINDINGS.fullmatch(entry.key)]


def quality_page(run: GraphRun) -> str:
    """Return the quality page of a run with its pictures inside.

    The page names the pictures as files beside it. The policy of the files lets a browser load nothing, so
    that these become ``data:`` URIs. A picture that is missing stays a name.

    Raises:
        PartitionOpsError: The storage cannot be reached, or there is no page.
    """
    with GraphStorageHook(run.storage_conn_id).open(run.root) as store:
        page = store.read_bytes(QUALITY_PAGE).decode()
        for key in (TIMES, SPEEDS):
            named = f'<img src="../{key}"'
            if named in page and store.exists(key):
                content = b64encode(store.read_bytes(key)).decode()
                page = page.replace(named, f'<img src="data:image/svg+xml;base64,{content}"')
    return page


def media_type(key: str) -> str | None:
    """Return the media type with which a browser shows the file; None for a download."""
    return SHOWN_AS.get(PurePosixPath(key).suffix)
