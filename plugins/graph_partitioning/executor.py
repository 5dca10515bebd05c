"""Airflow's LocalExecutor with workers that have imported what the tasks need."""

from __future__ import annotations

from airflow.executors.local_executor import LocalExecutor

from graph_partitioning.preloading import preload


class PreloadedLocalExecutor(LocalExecutor):
    """Runs tasks in forked workers, as LocalExecutor does, and saves them the imports.

    To use it: ``AIRFLOW__CORE__EXECUTOR=graph_partitioning.executor.PreloadedLocalExecutor``.

    The scheduler imports everything once, before it forks its workers. After an update of the package or of
    one that it needs, restart the scheduler: workers that are running keep the old modules. Where processes
    are spawned and not forked (macOS), it is a LocalExecutor.
    """

    def start(self) -> None:
        """Import what the tasks need, and start the workers."""
        if self.is_mp_using_fork:
            preload()
        super().start()
