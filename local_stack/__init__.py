"""An S3 server and an Airflow on this machine, for trying things out and for tests; not for production."""
