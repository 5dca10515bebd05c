"""Fixtures of the tests of whole jobs over small graphs."""

import tests.airflow_home  # noqa: F401
