"""An S3 server and Airflow on this machine, for trials and tests; not for production."""
