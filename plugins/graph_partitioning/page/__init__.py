"""A small web page in Airflow's server with the artifacts of tasks."""
