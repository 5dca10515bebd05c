"""The hook that turns an Airflow connection into a store."""
