"""`preload`: import what the tasks need into a process that tasks are forked from.

A task of Airflow is a process that is forked from a worker. Without preloading, each task imports NumPy,
numba, pyarrow, boto3 and the library, and loads the compiled loops, which takes 1 to 2 s of processor time.
"""

from __future__ import annotations

import gc
import logging
from collections.abc import Iterable, Iterator
from importlib import import_module
from pkgutil import iter_modules

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


def preload(names: Iterable[str] | None = None) -> None:
    """Import the modules of the tasks, load the compiled loops, and read boto3's description of S3.

    A module that cannot be imported is logged and left out, so that the worker starts; its task says why.
    Nothing is imported that starts threads which do not survive a fork: the stages of other packages, and
    what imports torch, are left out. The threads of NumPy, SciPy and pyarrow have handlers for forks.

    Args:
        names: Names of the modules; those of Airflow and of the library if it is left out.

    Peak memory: 150 MB, which the workers and their tasks share.
    """
    for name in task_modules() if names is None else names:
        try:
            import_module(name)
        except ImportError:
            log.warning("%s cannot be imported ahead of the tasks", name, exc_info=True)
    from partition_ops.storage.s3_client import load_models
    from partition_ops.system.compilation import load_loops

    load_models()
    load_loops()
    gc.collect()
    gc.freeze()  # a collection in a task does not visit what all of them share, and copies no page of it


def task_modules() -> Iterator[str]:
    """Yield the names of the modules that Airflow's tasks import."""
    yield from AIRFLOW
    yield from (f"{OPERATORS}.{module.name}" for module in iter_modules(import_module(OPERATORS).__path__))
    yield from library_modules()


def library_modules() -> Iterator[str]:
    """Yield the names of the modules of the library, of its engines and stages, and of what they need."""
    yield from LIBRARY
    from partition_ops.artifacts.stage import all_stages, other_stages
    from partition_ops.stages.partition.engines import engine_names, module_of

    yield from map(module_of, engine_names())
    foreign = other_stages()
    for stage in all_stages():
        if stage.run and stage.name not in OTHERS and stage not in foreign:
            yield stage.run.partition(":")[0]
