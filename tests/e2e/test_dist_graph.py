"""DGL's own servers and trainers, on what a run wrote to S3; and the guide page about them."""

from __future__ import annotations

import json
import os
import shutil
from importlib.metadata import distribution
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from examples.python_environment.__main__ import main as make_graph
from local_stack.airflow import BUCKET
from local_stack.processes import free_port
from partition_ops.jobs.options import RunConfig
from partition_ops.jobs.whole_job import run_job
from partition_ops.storage import open_store
from tests.e2e.airflow_site import Site
from tests.e2e.guide import Cluster, cluster, run_page, tools_on_path, two_servers
from tests.uploads import upload_folder

pytestmark = [pytest.mark.e2e, pytest.mark.long]

ROOT = Path(__file__).parents[2]
DISTRIBUTIONS = ("packaging", "tqdm", "requests", "idna", "jsonschema", "referencing")
PORTS = ("30050", "30051", "30060")
SECONDS = 240.0
SERVER = """
export DGL_ROLE=server DGL_SERVER_ID="$MACHINE"
python -c 'import dgl; dgl.distributed.initialize("ip_config.txt")'
"""
CLIENT = """
export RANK="$MACHINE"
python {client} "$INPUT" "$OUTPUT"
"""


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a few installed distributions: a graph that is real, and small."""
    folder = tmp_path_factory.mktemp("packages")
    for name in DISTRIBUTIONS:
        for file in distribution(name).files or ():
            source = Path(str(file.locate()))
            if ".." not in file.parts and source.is_file() and source.suffix != ".pyc":
                (folder / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, folder / file)
    return folder


@pytest.fixture
def reader(packages: Path, tmp_path: Path, site: Site, monkeypatch: pytest.MonkeyPatch) -> str:
    """The environment and the folder of a reader whose graph is on S3; the root of the output."""
    s3_settings = site.s3.settings()
    s3_root = f"s3://{BUCKET}/{tmp_path.name}"
    assert make_graph([str(tmp_path / "graph"), "--site-packages", str(packages), "--chunks", "2"]) == 0
    with open_store(s3_root, s3_settings) as store:
        upload_folder(tmp_path / "graph", store.child("in"))
    for name, value in {
        "AWS_ACCESS_KEY_ID": s3_settings.access_key,
        "AWS_SECRET_ACCESS_KEY": s3_settings.secret_key,
        "AWS_ENDPOINT_URL": s3_settings.endpoint_url,
        "INPUT": f"{s3_root}/in",
        "OUTPUT": f"{s3_root}/out",
        "DGLBACKEND": "pytorch",
        "OMP_NUM_THREADS": "1",
        "PATH": tools_on_path(os.environ["PATH"]),
        "PYTHONPATH": f"{ROOT / 'tests/e2e/one_host'}{os.pathsep}{ROOT}",
    }.items():
        monkeypatch.setenv(name, value or "")
    (tmp_path / "reader").mkdir()
    monkeypatch.chdir(tmp_path / "reader")
    return f"{s3_root}/out"


def environment() -> dict[str, str]:
    """Return the environment that makes this host several machines, whose servers have different ports."""
    return {**os.environ, "CLUSTER": f"{os.getpid()}"}


def test_servers_say_what_the_input_says(reader: str, site: Site, tmp_path: Path) -> None:
    """Counts, features, tensors and sampled edges, seen from both machines.

    The DAG writes the same bytes, see test_partition_graph.py.
    """
    settings = site.s3.settings()
    with open_store(os.environ["INPUT"], settings) as source, open_store(reader, settings) as output:
        run_job(RunConfig(num_parts=2), source, output)
    ports = [free_port() for _ in range(3)]
    env = {
        **environment(),
        **two_servers("data/python_environment.json", port=ports[2]),
    }
    with cluster(tmp_path / "reader", 2, env) as machines:
        machines.write("ip_config.txt", f"127.0.0.1 {ports[0]}\n127.0.0.1 {ports[1]}\n")
        machines.run('partition-ops fetch "$OUTPUT" --part "$MACHINE" --to data', seconds=SECONDS)
        servers = machines.start(SERVER)
        machines.run(CLIENT.format(client=Path(__file__).with_name("dist_graph_client.py")), seconds=SECONDS)
        machines.wait(servers, seconds=SECONDS)
        _check_fetched(machines)
    document = json.loads((tmp_path / "graph/metadata.json").read_text())
    features = sum(len(specs) for key in ("node_data", "edge_data") for specs in document[key].values())
    assert sum(f"checked {features} features and" in text for text in _logs(tmp_path)) == 2


def _check_fetched(machines: Cluster) -> None:
    """Check that every machine has its own partition only."""
    for machine in machines.machines:
        folders = [path.name for path in (machines.home(machine) / "data").iterdir() if path.is_dir()]
        assert folders == [f"part{machine}"]


def test_every_block_of_the_training_guide(reader: str, tmp_path: Path) -> None:
    ports = dict(zip(PORTS, (str(free_port()) for _ in PORTS), strict=True))
    with cluster(tmp_path / "reader", 2, environment()) as machines:
        names = run_page(ROOT / "docs/training.md", machines, ports, seconds=SECONDS)
    functions = len(np.load(tmp_path / "graph/node_data/function/label-00000.npy")) + len(
        np.load(tmp_path / "graph/node_data/function/label-00001.npy")
    )
    assert names["embeddings"].shape == (functions, 16)
    assert np.abs(names["embeddings"]).sum() > 0
    functions_by_name = pq.read_table(tmp_path / "graph/names/function.parquet")["name"].to_pylist()
    assert names["named"]["id"].to_pylist() == functions_by_name
    losses = [text for text in _logs(tmp_path) if "epoch 1: loss" in text]
    assert len(losses) == 2
    again, moved = names["carried"], names["moved"]
    assert again.shape == (functions, 16)
    assert sorted(moved["type_new_id"].to_pylist()) == list(range(functions))


def _logs(folder: Path) -> list[str]:
    return [path.read_text(errors="replace") for path in (folder / "reader/logs").iterdir()]


def test_guide_blocks_must_be_understood(tmp_path: Path) -> None:
    from tests.e2e.guide import blocks_of

    page = tmp_path / "page.md"
    page.write_text("```python\nx = 1\n```\n\n```\nplain\n```\n")
    with pytest.raises(ValueError, match="not understood"):
        blocks_of(page)
    assert {block.how for block in blocks_of(ROOT / "docs/training.md")} == {
        "",
        "ip_config.txt",
        "train.py",
        "each machine",
        "each machine, in the background",
    }
