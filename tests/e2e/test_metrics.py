"""Metrics of stages reach a real StatsD socket from the processes of real tasks."""

from __future__ import annotations

import pytest

from partition_ops.storage import open_store
from tests.e2e.airflow_site import INPUT, Run, Site
from tests.e2e.statsd import StatsdServer

pytestmark = pytest.mark.e2e
PREFIX = "airflow.graph_partitioning"
KINDS = [
    *("validate", "schema", "prepare", "partition"),
    *("convert.plan", "convert.scatter", "convert.part", "convert.config"),
    *("idmap", "quality"),
]


@pytest.mark.parametrize("kind", KINDS)
def test_every_stage_tells_time_rate_and_memory(statsd: StatsdServer, published: Run, kind: str) -> None:
    values = statsd.values
    assert min(values[f"{PREFIX}.{kind}.seconds"]) > 0
    assert min(values[f"{PREFIX}.{kind}.bytes_per_second"]) > 0
    peaks = values[f"{PREFIX}.{kind}.peak_memory_bytes"]
    assert 20 << 20 < min(peaks) <= max(peaks) < 8 << 30


def test_rates_are_those_of_the_records(statsd: StatsdServer, site: Site, published: Run) -> None:
    with open_store(published.root, site.s3.settings()) as output:
        record = output.read_json("records/validate.json")
    with open_store(INPUT, site.s3.settings()) as source:
        counts = source.read_json("metadata.json")["num_edges_per_chunk"]
    edges = sum(sum(chunks) for chunks in counts)
    # other runs send theirs too, and StatsD's client rounds to six digits
    rates = {"edges_per_second": edges / record["seconds"], "seconds": 1000 * record["seconds"]}
    for name, expected in rates.items():
        sent = statsd.values[f"{PREFIX}.validate.{name}"]
        assert any(value == pytest.approx(expected, rel=1e-3) for value in sent)


def test_what_was_done_already_is_counted_apart(statsd: StatsdServer, published: Run) -> None:
    # the list of partitions finds the plan done
    assert set(statsd.values[f"{PREFIX}.convert.plan.skipped"]) == {1}
    # the input has not changed since it was validated
    assert set(statsd.values[f"{PREFIX}.validate.skipped"]) == {1}
    assert f"{PREFIX}.prepare.skipped" not in statsd.values
