"""A home for Airflow's configuration that is not the user's own."""

import tests.airflow_home  # noqa: F401
