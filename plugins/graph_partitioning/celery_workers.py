"""Celery workers that have imported what the tasks need, before they fork the processes of their pool.

To use it, on every worker:
``AIRFLOW__CELERY__CELERY_CONFIG_OPTIONS=graph_partitioning.celery_workers.CELERY_CONFIG``.

Airflow imports this module when it reads the configuration of Celery. After an update of the package or of
one that it needs, restart the workers.
"""

from __future__ import annotations

import sys
from typing import Any

from airflow.providers.celery.executors.default_celery import DEFAULT_CELERY_CONFIG
from celery.signals import worker_init

from graph_partitioning.preloading import preload

CELERY_CONFIG: dict[str, Any] = DEFAULT_CELERY_CONFIG  # nothing but the import of this module differs


def preload_worker(**_: Any) -> None:
    """Import what the tasks need, in a worker that forks after this; the scheduler does not import it."""
    if sys.platform != "darwin":  # where Airflow starts a new Python for each task
        preload()


worker_init.connect(preload_worker, weak=False)
