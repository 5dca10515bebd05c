"""Validate, partition, convert and map heterogeneous graphs for DGL's distributed training.

The library never imports Airflow. Each stage is one public function in the package of the same
name: validate, schema, prepare, partition, convert, idmap, quality, publish.
"""

__version__ = "0.2.0"
