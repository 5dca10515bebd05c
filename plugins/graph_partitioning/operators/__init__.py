"""One operator for each stage; the DAG ``partition_graph`` puts them together."""
