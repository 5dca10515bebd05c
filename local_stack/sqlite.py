"""What Airflow's engine passes to SQLite; named by import path in Airflow's settings."""

from __future__ import annotations

# Seconds to wait for another process that is writing; the default of 5 is short on a busy machine.
CONNECT_ARGS = {"timeout": 60}
