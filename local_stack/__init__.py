"""An S3 server and Airflow on this machine, for trials and tests; not for production."""

# Seconds to wait for another process that is writing; the default of 5 is short on a busy machine. Airflow's
# settings name these arguments of its SQLite engine by their import path.
CONNECT_ARGS = {"timeout": 60}
