"""A home for Airflow's configuration that is not the user's own; to be imported before Airflow."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile

HOME = tempfile.mkdtemp(prefix="airflow-home-")
atexit.register(shutil.rmtree, HOME, ignore_errors=True)
os.environ["AIRFLOW_HOME"] = HOME
os.environ["AIRFLOW__CORE__LOAD_EXAMPLES"] = "False"
