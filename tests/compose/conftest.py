"""One stack for all tests of this folder: two workers and the example graph on its MinIO."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from local_stack.airflow import USER
from local_stack.airflow_api import AirflowApi
from local_stack.example_graph import PYTHON_ENVIRONMENT, upload_graph
from local_stack.folders import Folders
from partition_ops.stages.convert.ranges import GROUP_BYTES
from partition_ops.storage import StorageSettings
from tests.compose.stack import Stack, make_stack
from tests.temporary import on_disk  # noqa: F401

PACKAGES = "apache-airflow-core sqlalchemy pyarrow great-expectations packaging"


@pytest.fixture(scope="session")
def queued_seconds() -> int:
    """Time after which a task that a worker has lost is queued again; after three times, a task fails."""
    return 45


@pytest.fixture(scope="session")
def stack(queued_seconds: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """docker-compose.yaml, up and healthy; everything of it is removed at the end."""
    made = make_stack(
        tmp_path_factory.mktemp("compose"),
        f"partition-ops-test-{secrets.token_hex(3)}",
        TASK_HEARTBEAT_TIMEOUT="30",  # a worker that was killed is noticed after this
        TASK_QUEUED_TIMEOUT=str(queued_seconds),
        WORKER_GRACE="10s",
        WORKER_CONCURRENCY="2",
        DEMO_PACKAGES=PACKAGES,
    )
    made.build()
    try:
        made.up()
        yield made
    finally:
        made.remove()


@pytest.fixture(scope="session")
def s3(stack: Stack) -> StorageSettings:
    """The stack's S3 as seen from outside, with the rights that Airflow has."""
    settings = stack.settings
    return StorageSettings(
        endpoint_url=f"http://127.0.0.1:{settings['S3_PORT']}",
        region=settings["S3_REGION"],
        access_key=settings["S3_ACCESS_KEY"],
        secret_key=settings["S3_SECRET_KEY"],
        addressing_style="path",
    )


@pytest.fixture(scope="session")
def api(stack: Stack) -> AirflowApi:
    settings = stack.settings
    return AirflowApi(
        f"http://127.0.0.1:{settings['AIRFLOW_PORT']}", USER, settings["AIRFLOW_ADMIN_PASSWORD"]
    )


@pytest.fixture(scope="session")
def graph(stack: Stack, s3: StorageSettings, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example graph as the demo makes it, which is also on the stack's S3."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DEMO_PACKAGES", PACKAGES)
        folder = PYTHON_ENVIRONMENT.write(Folders(tmp_path_factory.mktemp("example")))
    widen(folder)
    upload_graph(PYTHON_ENVIRONMENT, folder, s3)
    return folder


def widen(folder: Path) -> None:
    """Add a feature to a graph, so large that its partitions do not share a task."""
    metadata = json.loads((folder / "metadata.json").read_text())
    counts = [sum(chunks) for chunks in metadata["num_nodes_per_chunk"]]
    count, node_type = max(zip(counts, metadata["node_type"], strict=True))
    values = np.random.default_rng(0).random((count, 6 * GROUP_BYTES // (4 * count)), np.float32)
    np.save(folder / "wide.npy", values)
    feature = {"format": {"name": "numpy"}, "data": ["wide.npy"]}
    metadata["node_data"].setdefault(node_type, {})["wide"] = feature
    (folder / "metadata.json").write_text(json.dumps(metadata))
