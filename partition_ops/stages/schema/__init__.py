"""Stage ``schema``: homogeneous ID ranges by type, as DGL's convert_partition.py reads them."""

from partition_ops.stages.schema.schema import GraphSchema, read_schema, schema_of, write_schema

__all__ = ["GraphSchema", "read_schema", "schema_of", "write_schema"]
