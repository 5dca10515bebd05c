"""Building one partition reads the metadata, and looks up the input files, once."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from partition_ops.artifacts import layout
from partition_ops.artifacts.tasks import input_objects
from partition_ops.chunked.metadata import METADATA, load_metadata
from partition_ops.stages.convert.gather import gather_partition
from partition_ops.stages.convert.options import ConvertConfig
from partition_ops.stages.convert.plan import plan_conversion
from partition_ops.stages.convert.scatter import scatter_edges
from partition_ops.stages.partition.options import PartitionConfig
from partition_ops.stages.partition.partition import partition_nodes
from partition_ops.storage.local_store import LocalStore
from partition_ops.storage.store import StoredObject
from tests.graphs import library


class CountingStore(LocalStore):
    """Counts how often each object is looked up and read."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.looked_up: Counter[str] = Counter()
        self.read: Counter[str] = Counter()

    def stat(self, key: str) -> StoredObject | None:
        self.looked_up[key] += 1
        return super().stat(key)

    def read_bytes(self, key: str) -> bytes:
        self.read[key] += 1
        return super().read_bytes(key)


def test_a_gather_looks_at_its_input_once(tmp_path: Path) -> None:
    source = CountingStore(library().write(tmp_path / "in"))
    destination, config = CountingStore(tmp_path / "out"), ConvertConfig()
    partition_nodes(PartitionConfig(num_parts=2, engine="random"), source, destination)
    groups = plan_conversion(config, source, destination).counters["groups"]
    for group in range(groups):
        scatter_edges(config, source, destination, group=group)
    for counts in (source.looked_up, source.read, destination.read):
        counts.clear()
    assert not gather_partition(config, source, destination, part=1).skipped
    assert source.read[METADATA] == 1
    objects = {entry.key for entry in input_objects(LocalStore(source.root), load_metadata(source))}
    assert source.looked_up == dict.fromkeys(objects, 1)
    assert destination.read[layout.record("partition")] <= 2
