"""A small web page in Airflow's own server: what the tasks of a run wrote."""
