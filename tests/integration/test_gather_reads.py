"""Building one partition reads the metadata, and looks up the input files, once."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from partition_ops.artifacts import layout
from partition_ops.artifacts.tasks import input_objects
from partition_ops.chunked.metadata import METADATA, load_metadata
from partition_ops.stages.convert import buckets
from partition_ops.stages.convert.context import Conversion
from partition_ops.stages.convert.convert import gather_partitions, scatter_groups
from partition_ops.stages.convert.options import ConvertConfig
from partition_ops.stages.convert.plan import make_plan, read_plan, task_groups
from partition_ops.stages.convert.write_book import write_book
from partition_ops.stages.partition.options import PartitionConfig
from partition_ops.stages.partition.partition import partition_nodes
from partition_ops.storage import StorageSettings, open_store
from partition_ops.storage.local_store import LocalStore
from partition_ops.storage.s3_store import S3Store
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
    conversion = Conversion(config, source, destination)
    scatter_groups(conversion, range(make_plan(conversion).counters["groups"]))
    for counts in (source.looked_up, source.read, destination.read):
        counts.clear()
    (gathered,) = gather_partitions(Conversion(config, source, destination), [1])
    assert not gathered.skipped
    assert source.read[METADATA] == 1
    objects = {entry.key for entry in input_objects(LocalStore(source.root), load_metadata(source))}
    assert source.looked_up == dict.fromkeys(objects, 1)
    assert destination.read[layout.record("partition")] <= 2


def test_edges_that_stay_mapped_give_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = LocalStore(library().write(tmp_path / "in"))
    found = []
    for name in ("copied", "mapped"):
        destination, config = LocalStore(tmp_path / name), ConvertConfig(num_hops=2)
        partition_nodes(PartitionConfig(num_parts=2, engine="random"), source, destination)
        conversion = Conversion(config, source, destination)
        scatter_groups(conversion, range(make_plan(conversion).counters["groups"]))
        blocks = conversion.buckets(read_plan(destination).edge_groups).open(0).blocks
        assert all(isinstance(rows, np.memmap) == (name == "mapped") for _, rows in blocks)
        list(gather_partitions(conversion, [0, 1]))
        files = destination.list("partitions/")
        found.append({entry.key: destination.read_bytes(entry.key) for entry in files})
        monkeypatch.setattr(buckets, "MOST_COPIED", -1)
    assert found[0] == found[1]


def test_small_buckets_are_fetched_whole_and_once(
    tmp_path: Path, s3_root: str, s3_settings: StorageSettings
) -> None:
    source, config = open_store(str(library().write(tmp_path / "in"))), ConvertConfig()
    read: Counter[str] = Counter()

    def count(request: Any, **more: Any) -> None:
        if request.method == "GET" and "/buckets/" in request.url:
            read[request.url.split("?")[0].rsplit("/", 1)[-1]] += 1

    with open_store(f"{s3_root}/out", s3_settings) as destination:
        partition_nodes(PartitionConfig(num_parts=4, engine="random"), source, destination)
        conversion = Conversion(config, source, destination)
        make_plan(conversion)
        groups = task_groups(conversion)
        assert groups.gathers == [[0, 1, 2, 3]]
        for scatter in groups.scatters:
            scatter_groups(Conversion(config, source, destination), scatter)
    with open_store(f"{s3_root}/out", s3_settings) as destination:
        assert isinstance(destination, S3Store)
        destination._client.meta.events.register("before-send.s3", count)
        results = [*gather_partitions(Conversion(config, source, destination), groups.gathers[0])]
        write_book(Conversion(config, source, destination))
    assert [result.skipped for result in results] == [False] * 4
    assert read["edges.bin"] <= 2  # over plain HTTP, a second request may check the first
