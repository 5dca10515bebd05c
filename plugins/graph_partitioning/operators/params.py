"""The params of a DAG run, before its first task."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, cast

from graph_partitioning.alerts import check_alerts
from graph_partitioning.operators.task_messages import explain_failures, fail
from graph_partitioning.options import unknown_params

if TYPE_CHECKING:
    from airflow.sdk import Context
    from airflow.sdk.types import Logger


def check_params(context: Context) -> None:
    """Fail a DAG run that was triggered with params that its DAG does not have, or with unknown alerts.

    Airflow would ignore such params. The first tasks of a DAG take the function as their ``pre_execute``.
    """
    unknown = unknown_params(context["dag_run"].conf or {}, [*context["dag"].params])
    if unknown:
        fail(unknown)
    with explain_failures(cast("Logger", logging.getLogger(__name__))):
        check_alerts(context.get("params") or {})
