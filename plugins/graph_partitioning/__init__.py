"""Graph partitioning in Airflow: operators, a storage hook, assets and a page with the artifacts."""
