"""The folder of the engines: listing it is cheap, and one new file there is a new engine."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.contributing import Checkout
from tests.graphs import library
from tests.mpi import needs_mpi

pytestmark = pytest.mark.long

ENGINE = "partition_ops/stages/partition/engines/round_robin.py"
TEST = "tests/unit/stages/partition/test_round_robin.py"


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """A copy of the library with the engine, and its test, that CONTRIBUTING.md adds."""
    copy = Checkout(tmp_path_factory.mktemp("checkout"))
    copy.add(ENGINE)
    copy.add(TEST)
    return copy


def test_listing_the_engines_imports_nothing_heavy() -> None:
    code = (
        "import sys; from partition_ops.stages.partition.engines import engine_names;"
        " print(*engine_names()); sys.exit('numpy' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["auto", "two-level", "metis", "parmetis", "random"]


def test_the_engine_of_contributing_runs_and_its_output_is_verified(
    checkout: Checkout, tmp_path: Path
) -> None:
    source, output = str(library().write(tmp_path / "graph")), str(tmp_path / "out")
    checkout.run("run", source, output, "--num-parts", "3", "--engine", "round-robin")
    checkout.run("verify", source, output)
    papers = (tmp_path / "out" / "assignment" / "paper.txt").read_text().split()
    assert [int(part) for part in papers[:4]] in ([0, 1, 2, 0], [1, 2, 0, 1], [2, 0, 1, 2])
    said = checkout.run(
        "run", source, output, "--num-parts", "3", "--engine", "round-robin", "--tolerance", "1.1", code=2
    )
    assert "'round-robin' does not support --tolerance" in said


def test_the_engine_of_contributing_follows_an_earlier_run(checkout: Checkout, tmp_path: Path) -> None:
    source = str(library().write(tmp_path / "graph"))
    options = ["--num-parts", "3", "--engine", "round-robin"]
    checkout.run("run", source, str(tmp_path / "first"), *options)
    checkout.run("run", source, str(tmp_path / "next"), *options, "--previous", str(tmp_path / "first"))
    first, following = (tmp_path / name / "assignment" / "paper.txt" for name in ("first", "next"))
    assert first.read_bytes() == following.read_bytes()


def test_the_engine_of_contributing_has_an_option_of_its_own(checkout: Checkout, tmp_path: Path) -> None:
    source, output = str(library().write(tmp_path / "graph")), str(tmp_path / "out")
    options = ["--num-parts", "3", "--first-part", "2", "--engine"]
    checkout.run("run", source, output, *options, "round-robin")
    assert (tmp_path / "out/assignment/author.txt").read_text().split()[:4] == ["2", "0", "1", "2"]
    made_by = json.loads((tmp_path / "out/assignment/assignment.json").read_text())["made_by"]
    assert made_by["round_robin"] == {"first_part": 2}
    said = checkout.run("run", source, str(tmp_path / "other"), *options, "random", code=2)
    assert "--first-part needs --engine round-robin" in said


@needs_mpi
def test_ranks_have_the_options_of_the_engine_of_contributing(checkout: Checkout, tmp_path: Path) -> None:
    source = str(library().write(tmp_path / "graph"))
    (checkout.root / "first_part_rank.py").write_text(
        "import numpy as np\n"
        "from partition_ops.stages.partition.engines.round_robin import RoundRobinOptions\n"
        "from partition_ops.stages.partition.mpi.job import do_work\n"
        "do_work(lambda work: np.full(3, work.config.own(RoundRobinOptions).first_part, np.int32))\n"
    )
    said = checkout.python(
        "from partition_ops.chunked.metadata import load_metadata\n"
        "from partition_ops.stages.partition.engines.round_robin import RoundRobinOptions\n"
        "from partition_ops.stages.partition.mpi.job import partition_over_ranks\n"
        "from partition_ops.stages.partition.options import PartitionConfig\n"
        "from partition_ops.stages.partition.problem import Problem\n"
        "from partition_ops.storage import open_store\n"
        f"source, run = open_store({source!r}), open_store({str(tmp_path / 'out')!r})\n"
        "config = PartitionConfig(num_parts=8, round_robin=RoundRobinOptions(first_part=7))\n"
        "print(partition_over_ranks('first_part_rank', Problem(config, load_metadata(source), run)))\n"
    )
    assert "[7 7 7]" in said


def test_options_of_engines_import_nothing_heavy() -> None:
    code = "import sys; import partition_ops.stages.partition.options; sys.exit('numpy' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_test_of_contributing_passes(checkout: Checkout) -> None:
    assert "1 passed" in checkout.test(TEST)


def test_the_command_line_and_the_form_offer_the_engine_of_contributing(checkout: Checkout) -> None:
    help_text = " ".join(checkout.run("run", "--help").split())
    assert "round-robin: every partition gets the next node in turn." in help_text
    said = checkout.python(
        "import runpy; dag = runpy.run_path('dags/partition_graph.py')['dag'];"
        " print(dag.params.get_param('engine').serialize())"
    )
    assert "'two-level', 'metis', 'parmetis', 'random', 'round-robin']" in said
    assert "round-robin: every partition gets the next node in turn." in said
