"""A manifest lists what is there: at no moment anything else, whatever is called into the same output."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from partition_ops.artifacts import layout
from partition_ops.errors import InvalidInputError, QualityGateError
from partition_ops.jobs.options import RunConfig
from partition_ops.jobs.whole_job import run_job
from partition_ops.stages.partition.options import PartitionConfig
from partition_ops.stages.partition.partition import partition_nodes
from partition_ops.stages.publish.options import Gate, PublishConfig
from partition_ops.stages.publish.publish import publish_run
from partition_ops.storage import Store, open_store
from partition_ops.storage.local_store import LocalStore
from partition_ops.storage.store import NewObject, sha256_of
from tests.graphs import library

CONFIG = {"num_parts": 2, "engine": "two-level"}


def check_manifest(store: LocalStore) -> None:
    """Check that everything that the manifest lists exists, if there is a manifest."""
    if not (store.root / layout.MANIFEST).exists():
        return
    for entry in store.read_json(layout.MANIFEST)["artifacts"]:
        assert sha256_of(store.root / entry["key"]) == entry["sha256"], entry["key"]


class WatchedStore(LocalStore):
    """Looks at the manifest after each change, as somebody would find it after a kill."""

    def delete(self, keys: Iterable[str]) -> None:
        for key in keys:
            super().delete([key])
            check_manifest(self)

    @contextmanager
    def create(self, key: str) -> Iterator[NewObject]:
        with super().create(key) as new:
            yield new
        check_manifest(self)


@pytest.fixture
def source(tmp_path: Path) -> Store:
    return open_store(str(library(papers=60).write(tmp_path / "in")))


@pytest.fixture
def output(source: Store, tmp_path: Path) -> WatchedStore:
    """A finished output."""
    output = WatchedStore(tmp_path / "out")
    run_job(RunConfig(**CONFIG), source, output)
    return output


@pytest.mark.parametrize("gate", [Gate(), Gate(max_edge_cut=0.0001)], ids=["passes", "does not"])
@pytest.mark.parametrize(
    "options",
    [
        {"engine": "random"},  # which needs no prepared graph: the one of the run before goes
        {"num_hops": 2},
    ],
    ids=lambda options: next(iter(options)),
)
def test_a_call_with_other_options(
    options: dict[str, Any], gate: Gate, source: Store, output: WatchedStore, tmp_path: Path
) -> None:
    config, fresh = RunConfig(**{**CONFIG, **options}, gate=gate), open_store(str(tmp_path / "fresh"))
    if gate == Gate():
        run_job(config, source, output)
        run_job(config, source, fresh)
        assert output.read_bytes(layout.MANIFEST) == fresh.read_bytes(layout.MANIFEST)
    else:
        with pytest.raises(QualityGateError):
            run_job(config, source, output)
        assert not output.exists(layout.MANIFEST)
    check_manifest(output)


def test_a_stricter_gate_takes_nothing_from_what_was_published(source: Store, output: WatchedStore) -> None:
    before = output.read_bytes(layout.MANIFEST)
    with pytest.raises(QualityGateError):
        run_job(RunConfig(**CONFIG, gate=Gate(max_edge_cut=0.0001)), source, output)
    assert output.read_bytes(layout.MANIFEST) == before
    check_manifest(output)


def lose_a_file(source: Store, output: LocalStore) -> None:
    (output.root / "partitions/part1/graph.dgl").unlink()


def cut_a_file(source: Store, output: LocalStore) -> None:
    output.write_bytes("idmap/nodes/paper.parquet", b"PAR1")


def partition_again(source: Store, output: LocalStore) -> None:
    """As when one task of a published DAG run is cleared, without what follows it."""
    partition_nodes(PartitionConfig(**CONFIG, seed=1), source, output)


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (lose_a_file, "partitions/part1/graph.dgl"),
        (cut_a_file, "idmap/nodes/paper.parquet"),
        (partition_again, "'convert-plan' .* is out of date"),
    ],
)
def test_what_does_not_fit_together_is_not_published(
    change: Callable[[Store, LocalStore], None], found: str, source: Store, output: WatchedStore
) -> None:
    output.delete([layout.MANIFEST])
    change(source, output)
    with pytest.raises(InvalidInputError, match=found):
        publish_run(PublishConfig(), source, output)
    assert not output.exists(layout.MANIFEST)
