"""Ranges of buckets on S3: read once, and compared with the checksums of their index."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.s3_jobs import RequestCounter
from partition_ops.artifacts import layout
from partition_ops.artifacts.records import forget_task, part_task
from partition_ops.errors import TransientStorageError
from partition_ops.stages.convert import buckets
from partition_ops.stages.convert.context import Conversion
from partition_ops.stages.convert.convert import convert_graph, gather_partitions, scatter_groups
from partition_ops.stages.convert.options import ConvertConfig
from partition_ops.stages.convert.plan import make_plan, read_plan
from partition_ops.stages.partition.options import PartitionConfig
from partition_ops.stages.partition.partition import partition_nodes
from partition_ops.storage import StorageSettings, open_store
from tests.graphs import in_chunks, library

NUM_PARTS = 4  # more than make it worth while to scatter features


@pytest.mark.parametrize("name", [layout.EDGES, layout.ROWS])
def test_ranges_of_buckets_are_read_once_and_checked(
    name: str,
    tmp_path: Path,
    s3_root: str,
    s3_settings: StorageSettings,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Scatter leaves checksums, with which gather compares what arrives over plain HTTP."""
    source = open_store(str(in_chunks(library(papers=300), 4).write(tmp_path / "in")))
    monkeypatch.setattr(buckets, "REQUEST_BYTES", 0)  # no bucket is fetched whole
    config = ConvertConfig()
    with open_store(s3_root, s3_settings) as destination:
        partition_nodes(PartitionConfig(num_parts=NUM_PARTS, engine="random"), source, destination)
        conversion = Conversion(config, source, destination)
        scatter_groups(conversion, range(make_plan(conversion).counters["groups"]))
        plan = read_plan(destination)
        key = layout.bucket((plan.edge_groups if name == layout.EDGES else plan.feature_groups)[0], name)
        written = destination.read_bytes(key)
        index = destination.read_json(f"{key.removesuffix('.bin')}.json")
    counts = index["counts"] if name == layout.EDGES else [one["counts"] for one in index["chunks"]]
    with open_store(s3_root, s3_settings) as destination, RequestCounter().counting() as seen:
        conversion = Conversion(config, source, destination)
        assert len([*gather_partitions(conversion, range(NUM_PARTS))]) == NUM_PARTS
    reads = sum(count for (verb, of), count in seen.items() if verb == "GET" and of.endswith(key))
    assert reads == np.count_nonzero(counts)
    alone = open_store(str(tmp_path / "alone"))
    partition_nodes(PartitionConfig(num_parts=NUM_PARTS, engine="random"), source, alone)
    convert_graph(config, source, alone)
    with open_store(s3_root, s3_settings) as destination:
        for entry in alone.list("partitions/part"):
            assert destination.read_bytes(entry.key) == alone.read_bytes(entry.key)
        destination.write_bytes(key, bytes([written[0] ^ 1]) + written[1:])
        forget_task(destination, part_task(0))
    with (
        open_store(s3_root, s3_settings) as destination,
        pytest.raises(TransientStorageError, match="does not have the bytes that were written"),
    ):
        [*gather_partitions(Conversion(config, source, destination), [0], checked=True)]
