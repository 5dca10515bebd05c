"""The params of a DAG run, before its first task."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graph_partitioning.operators.base import fail
from graph_partitioning.options import unknown_params

if TYPE_CHECKING:
    from airflow.sdk import Context


def check_params(context: Context) -> None:
    """Fail a DAG run that was triggered with params that its DAG does not have.

    Airflow would ignore them. The first tasks of a DAG take the function as their ``pre_execute``.
    """
    unknown = unknown_params(context["dag_run"].conf or {}, [*context["dag"].params])
    if unknown:
        fail(unknown)
