"""Whatever the graph, the engine and the options: the output verifies, and DGL loads it."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partition_ops.jobs.options import RunConfig
from partition_ops.jobs.whole_job import run_job
from partition_ops.stages.partition.engines import engine_names
from partition_ops.stages.partition.multilevel.tuning import DEFAULT, TUNINGS
from partition_ops.storage import open_store
from partition_ops.verification import verify_output
from tests.defects import CHOICES, with_defects
from tests.graphs import SHAPES, SmallGraph, library
from tests.mpi import needs_parmetis
from tests.strategies import graphs
from tests.temporary import temporary_folder

ENGINES = [pytest.param(name, marks=needs_parmetis if name == "parmetis" else ()) for name in engine_names()]
OTHERS = [(param.values[0], param.marks) for param in ENGINES if param.values[0] != "random"]
BALANCES = ("node-types", "edges", "none")


def run_and_verify(graph: SmallGraph, config: RunConfig) -> None:
    """The checks of ``verify`` include loading every partition with ``dgl.distributed.load_partition``."""
    with temporary_folder() as folder:
        source = open_store(str(graph.write(Path(folder) / "input")))
        destination = open_store(str(Path(folder) / "output"))
        run_job(replace(config, num_parts=graph.parts(config.num_parts)), source, destination)
        report = verify_output(source, destination)
    assert report.passed, report.summary()


@pytest.mark.parametrize(("engine", "balance"), [("random", "none"), *product(["metis"], BALANCES)])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_graph_of_awkward_shape(shape: str, engine: str, balance: str) -> None:
    config = RunConfig(num_parts=SHAPES[shape].parts(4), engine=engine, balance=balance, on_defect="warn")
    run_and_verify(SHAPES[shape], config)


@pytest.mark.parametrize("engine", ["random", "metis"])
@pytest.mark.parametrize("shape", SHAPES)
def test_an_awkward_shape_in_one_partition(shape: str, engine: str) -> None:
    run_and_verify(SHAPES[shape], RunConfig(num_parts=1, engine=engine, on_defect="warn"))


@pytest.mark.parametrize("choice", CHOICES, ids=lambda choice: "-".join(choice.values()))
def test_every_choice_about_defects(choice: dict[str, str]) -> None:
    config = RunConfig(num_parts=3, engine="random", balance="edges", on_defect=choice)
    run_and_verify(with_defects(library()), config)


@pytest.mark.parametrize(
    ("engine", "choice"),
    # each engine with every action for each of the two checks, in other pairs than the engine before
    [
        pytest.param(engine, choice, marks=marks, id="-".join([engine, *choice.values()]))
        for number, (engine, marks) in enumerate(OTHERS)
        for choice in (CHOICES[3 * first + (first + number) % 3] for first in range(3))
    ],
)
def test_engines_with_choices_about_defects(engine: str, choice: dict[str, str]) -> None:
    config = RunConfig(num_parts=3, engine=engine, balance="edges", on_defect=choice)
    run_and_verify(with_defects(library()), config)


@pytest.mark.parametrize("engine", ENGINES)
@settings(max_examples=max(10, settings.default.max_examples // len(ENGINES)))
@given(
    graph=graphs(),
    options=st.fixed_dictionaries(
        {
            "num_parts": st.integers(1, 5),
            "balance": st.sampled_from(BALANCES),
            "seed": st.integers(0, 99),
            "on_defect": st.sampled_from(CHOICES),
        }
    ),
)
def test_any_graph(engine: str, graph: SmallGraph, options: dict[str, Any]) -> None:
    run_and_verify(graph, RunConfig(engine=engine, **options))


@settings(max_examples=30)
@given(graph=graphs(), num_parts=st.integers(2, 5), balance=st.sampled_from(BALANCES))
def test_any_graph_through_clusters(graph: SmallGraph, num_parts: int, balance: str) -> None:
    """Graphs as small as these are left to METIS otherwise."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(TUNINGS, "default", replace(DEFAULT, few_nodes=3, most_half_edges=10))
        config = RunConfig(num_parts=num_parts, engine="two-level", balance=balance, on_defect="warn")
        run_and_verify(graph, config)
