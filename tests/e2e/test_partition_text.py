"""The example DAG of the text route, run by the real scheduler with the real ParMETIS, on S3."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from partition_ops.formats.parmetis.graph_store import as_graph
from partition_ops.storage import open_store
from partition_ops.system.dgl_import import import_dgl
from partition_ops.verification import verify_output
from tests.e2e.airflow_site import INPUT, OUTPUT, TEXT_DAG_ID, Site
from tests.graphs import library
from tests.mpi import needs_parmetis

pytestmark = [pytest.mark.e2e, pytest.mark.long]
PARTS, PAPERS = 4, 120
TASKS = ["convert_partition", "pm_dglpart", "publish", "text"]


@needs_parmetis
def test_the_example_dag_partitions_a_graph(site: Site, tmp_path: Path) -> None:
    output_uri = f"{OUTPUT}-text"
    run = site.trigger(TEXT_DAG_ID, input_uri=INPUT, output_uri=output_uri, attributes=["feat"])
    site.wait(run, "success")
    tasks = site.api.tasks(TEXT_DAG_ID, run.run_id)
    assert sorted((task.name, task.state, task.try_number) for task in tasks) == [
        (name, "success", 1) for name in TASKS
    ]
    settings = site.s3.settings()
    latest = open_store(f"{output_uri}/small", settings).read_json("latest.json")
    assert (latest["run"], latest["run_id"]) == (run.root, run.run_id)
    with open_store(run.root, settings) as output:
        with as_graph(output.child("prepare")) as text:
            report = verify_output(text, output)
        assert report.passed, report.failed
        for entry in output.list():
            if re.fullmatch(r"small\.json|part\d+/.*", entry.key):
                file = tmp_path / entry.key
                file.parent.mkdir(exist_ok=True)
                file.write_bytes(output.read_bytes(entry.key))
    expected = next(v.array for v in library(papers=PAPERS).node_values if v.name == "feat")
    load, seen = import_dgl().distributed.load_partition, []
    for part in range(PARTS):
        graph, feats, *_ = load(str(tmp_path / "small.json"), part)
        inner = graph.ndata["inner_node"].bool() & (graph.ndata["_TYPE"] == 1)
        papers = graph.ndata["orig_id"][inner].numpy()
        assert 0.8 < len(papers) * PARTS / PAPERS < 1.2  # ParMETIS balances the type by its weight
        np.testing.assert_array_equal(feats["paper/feat"].numpy()[:, : expected.shape[1]], expected[papers])
        seen += papers.tolist()
    assert sorted(seen) == [*range(PAPERS)]
