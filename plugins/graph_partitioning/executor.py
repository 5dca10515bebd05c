"""Airflow's LocalExecutor with workers that have imported what the tasks need.

A task of Airflow is a process that is forked from a worker of the executor. Without preloading, each task
imports NumPy, numba, pyarrow, boto3 and the library, and loads the compiled loops, which takes 1 to 2 s of
processor time. The scheduler does that once, before it forks its workers.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from importlib import import_module
from pkgutil import iter_modules

from airflow.executors.local_executor import LocalExecutor

from graph_partitioning.provider import OPERATORS

log = logging.getLogger(__name__)

AIRFLOW = (
    "airflow.sdk.execution_time.supervisor",
    "airflow.sdk.execution_time.task_runner",
    "airflow.sdk.api.client",
    "airflow.providers.amazon.aws.hooks.base_aws",
)
LIBRARY = (  # what is imported by need, besides the functions of the stages
    "pandas",  # pyarrow imports it to convert text and Booleans
    "pyarrow.csv",
    "pyarrow.parquet",
    "partition_ops.chunked.plain_edges",
    "partition_ops.formats.parmetis.graph_store",
    "partition_ops.formats.dgl.dgl_format",
    "partition_ops.formats.parmetis.prepare_text",
    "partition_ops.jobs.one_stage",
    "partition_ops.jobs.open_graph",
    "partition_ops.jobs.whole_job",
    "partition_ops.stages.partition.incremental.near_home",
    "partition_ops.stages.partition.incremental.previous_run",
    "partition_ops.stages.partition.metis_library",
    "partition_ops.stages.publish.gate",
    "partition_ops.stages.quality.history",
    "partition_ops.storage.s3_store",
    "partition_ops.traffic.half_edge_weights",
)
OTHERS = {"probe"}  # stages that import torch


class PreloadedLocalExecutor(LocalExecutor):
    """Runs tasks in forked workers, as LocalExecutor does, and saves them the imports.

    To use it: ``AIRFLOW__CORE__EXECUTOR=graph_partitioning.executor.PreloadedLocalExecutor``.

    After an update of the package or of one that it needs, restart the scheduler: workers that are running
    keep the old modules. Where processes are spawned and not forked (macOS), it is a LocalExecutor.
    """

    def start(self) -> None:
        """Import what the tasks need, and start the workers."""
        if self.is_mp_using_fork:
            preload()
        super().start()


def preload() -> None:
    """Import the modules of the tasks, load the compiled loops, and read boto3's description of S3.

    A module that cannot be imported is logged and left out, so that the scheduler starts; its task says why.
    Nothing is imported that starts threads which do not survive a fork: the stages of other packages, and
    what imports torch, are left out. The threads of NumPy, SciPy and pyarrow have handlers for forks.

    Peak memory: 150 MB, which the workers and their tasks share.
    """
    for name in modules():
        try:
            import_module(name)
        except ImportError:
            log.warning("%s cannot be imported ahead of the tasks", name, exc_info=True)
    from partition_ops.storage.s3_client import load_models
    from partition_ops.system.compilation import load_loops

    load_models()
    load_loops()


def modules() -> Iterator[str]:
    """Yield the names of the modules that are imported."""
    yield from AIRFLOW
    yield from (f"{OPERATORS}.{module.name}" for module in iter_modules(import_module(OPERATORS).__path__))
    yield from LIBRARY
    yield from _of_library()


def _of_library() -> Iterator[str]:
    """Yield the modules of our engines, and those with the functions of our stages."""
    from partition_ops.artifacts.stage import all_stages, other_stages
    from partition_ops.stages.partition.engines import engine_names, module_of

    yield from map(module_of, engine_names())
    foreign = other_stages()
    for stage in all_stages():
        if stage.run and stage.name not in OTHERS and stage not in foreign:
            yield stage.run.partition(":")[0]
