"""The blocks of pages that need no servers run on a small graph."""

from __future__ import annotations

import os
import shlex
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from partition_ops.stages.partition.mpi.mpirun import mpi_environment
from partition_ops.stages.publish.publish import publish_again
from partition_ops.storage import StorageSettings, open_store
from tests.campaign.__main__ import main as campaign
from tests.campaign.frame import s3_environment
from tests.command_line import Called
from tests.e2e.guide import tools_on_path
from tests.graphs import Edges, library
from tests.mpi import MISSING
from tests.pages import commands_to_run, run_blocks, run_commands
from tests.uploads import upload_folder

pytestmark = pytest.mark.long
ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = ["partition", "balance", "repair", "manifest-last", "from-dgl", "from-graphstorm", "text-embeddings"]
# stands in for a package of 2 GB and a model that has to be downloaded: equal texts get equal vectors
ENCODER = """
import zlib
import numpy as np

class SentenceTransformer:
    def __init__(self, name):
        self.name = name

    def encode(self, texts):
        return np.stack([np.random.default_rng(zlib.crc32(text.encode())).random(8) for text in texts])
"""


def write_graphs(folder: Path) -> None:
    """Write the graph ``citations``, and the same one with a duplicate edge and a self-loop."""
    graph = replace(library(), name="citations")
    for name in ("graphs/citations", "graphs/mag"):
        graph.write(folder / name)
    tables = folder / "my-tables"
    tables.mkdir()
    (tables / "authors.csv").write_text("author,age\nann,30\nbob,31\ncy,32\ndee,33\neve,34\n")
    (tables / "knows.csv").write_text("author,friend\nann,bob\nbob,cy\ncy,ann\ndee,eve\neve,ann\n")
    cites = graph.edges["paper:cites:paper"]
    damaged = {
        **graph.edges,
        "paper:cites:paper": Edges([*cites.src, cites.src[0], 3], [*cites.dst, cites.dst[0], 3]),
    }
    replace(graph, edges=damaged, edge_values=[]).write(folder / "graphs/damaged")


def prepare(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a folder of a reader, with graphs, the working directory."""
    monkeypatch.chdir(folder)
    write_graphs(folder)
    monkeypatch.setenv("PATH", tools_on_path(os.environ["PATH"]))
    monkeypatch.setenv("OMPI_MCA_rmaps_base_oversubscribe", "1")  # more ranks than cores
    for variable, value in mpi_environment().items():
        monkeypatch.setenv(variable, value)


@pytest.mark.parametrize("name", PAGES)
def test_every_block_of_the_page_runs(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, called: Called
) -> None:
    prepare(tmp_path, monkeypatch)
    np.save("node_emb.npy", np.ones((40, 4)))
    if name == "text-embeddings":
        Path("sentence_transformers.py").write_text(ENCODER)
        monkeypatch.syspath_prepend(tmp_path)
    if name == "manifest-last":
        run_commands("partition-ops run graphs/citations out/citations --num-parts 2", called)
    run_blocks(DOCS / f"{name}.md", called)


# what stands for something of the reader's, and what it is here; ROOT is a place on S3. The memory is that
# of this process, which earlier tests have filled
PLACEHOLDERS = {
    "INPUT [--output DIR] [--on-defect [CHECK=]ACTION]... [--memory SIZE]": (
        "graphs/damaged --output out --on-defect self_loop_edges=drop --on-defect warn --memory 8G"
    ),
    "INPUT OUTPUT": "graphs/mag out/mag",
    "s3://": "ROOT/",
    "--mpi-ranks 16": "--mpi-ranks 2",
    "'kill, S3' --share 0.1": "'kill, S3, random' --share 0.001",
    "--journal FILE --processes 1": "--journal journal --only 'four at once, local' --share 0.001",
    "--seed h1 --minutes 160 --journal FILE": "--seed h1 --only 'four at once, local' --share 0.001",
    "kubectl create": "kubectl create --dry-run=client",
}
# pages with commands as indented text, and the command that makes the output that they read
SHOP = """\
mkdir tables
printf 'id\\n1\\n2\\n3\\n' > tables/items.csv
printf 'from,to\\n1,2\\n2,3\\n' > tables/views.csv
printf 'graph_name: shop\\nnodes:\\n  item: {table: items.csv, key: id}\\n' > tables/graph.yaml
printf 'edges:\\n  item:views:item: {table: views.csv, src: from, dst: to}\\n' >> tables/graph.yaml
partition-ops run tables/graph.yaml out/shop --num-parts 2"""
INDENTED = {
    "README": "",
    "docs/compose": "",
    "docs/estimate": "",
    "docs/growth": "",
    "docs/kubernetes": "",
    "docs/parmetis": "",
    "docs/reliability": "",
    "docs/schedule": f"partition-ops run my-graph out/citations --num-parts 2\n{SHOP}",
    "docs/validation": "",
    "docs/verify": "partition-ops run graphs/mag out/mag --num-parts 2",
}


@pytest.mark.parametrize("name", INDENTED)
def test_indented_commands_and_code(
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    called: Called,
    s3_root: str,
    s3_settings: StorageSettings,
) -> None:
    """All but those of `NOT_RUN` and .ci/run; the README's code has its own test."""
    prepare(tmp_path, monkeypatch)
    for variable, value in s3_environment(s3_settings).items():
        monkeypatch.setenv(variable, value)
    page = ROOT / f"{name}.md"
    if name != "README":  # its commands make this graph of tables
        library().write(tmp_path / "my-graph")
    run_commands(INDENTED[name], called)
    commands = commands_to_run(page)
    if name == "docs/parmetis":  # test_convert_partition.py runs those with text files
        commands = [line for line in commands if "--engine parmetis" in line and not MISSING]
        Path("hosts").write_text("localhost slots=2\n")
        with open_store(f"{s3_root}/data/mag", s3_settings) as store:
            upload_folder(tmp_path / "graphs/mag", store)
    if name == "docs/schedule":
        with open_store(f"{s3_root}/partitioned/citations", s3_settings) as store:
            upload_folder(tmp_path / "out/citations", store.child("runs/1"))
            publish_again(store, "1")
    for line in commands:
        for placeholder, here in PLACEHOLDERS.items():
            line = line.replace(placeholder, here.replace("ROOT", s3_root))
        if line.startswith("python -m tests.campaign"):
            assert "--share 0.001" in line, f"{line}: a whole campaign takes hours; give it a placeholder"
            monkeypatch.setattr("sys.argv", shlex.split(line)[2:])
            assert campaign() == 0
        elif shutil.which(line.split()[0]):
            run_commands(line, called)
    if name in ("docs/growth", "docs/verify"):
        np.save("paper_embeddings.npy", np.ones((40, 4), np.float32))
        run_blocks(page, called)
