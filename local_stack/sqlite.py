"""Connection arguments of Airflow's SQLite engine; Airflow's settings name them by import path."""

from __future__ import annotations

# Seconds to wait for another process that is writing; the default of 5 is short on a busy machine.
CONNECT_ARGS = {"timeout": 60}
