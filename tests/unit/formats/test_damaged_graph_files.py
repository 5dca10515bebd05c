"""Damaged headers of DGL's graph files: our reader rejects those for which DGL's would end the process."""

from __future__ import annotations

from pathlib import Path

import pytest

from partition_ops.errors import InvalidInputError
from partition_ops.formats.dgl.array_places import graph_places
from partition_ops.formats.dgl.loaded_files import load_graph_file
from partition_ops.jobs.options import RunConfig
from partition_ops.jobs.whole_job import run_job
from partition_ops.storage import open_store
from tests.graphs import library

KEY = "partitions/part0/graph.dgl"
HEADER = range(32, 4096)  # which DGL leaves empty


@pytest.mark.parametrize("sparse", [("coo",), ("csc",)])
def test_every_number_in_a_header_counts(sparse: tuple[str, ...], tmp_path: Path) -> None:
    """Names, formats and kinds of numbers may differ; then DGL loads the file, or raises an error."""
    source, output = open_store(str(library().write(tmp_path / "in"))), open_store(str(tmp_path / "out"))
    run_job(RunConfig(num_parts=2, engine="random", graph_formats=sparse), source, output)
    path = tmp_path / "out" / KEY
    data, places = path.read_bytes(), graph_places(output, KEY)
    arrays = [array for ends in places.formats.values() for array in ends]
    arrays += [*places.nodes.values(), *places.edges.values()]
    inside = {place for one in arrays for place in range(one.offset, one.offset + one.nbytes)}
    accepted = 0
    outside = [place for place in range(len(data)) if place not in inside and place not in HEADER]
    for place in outside:
        changed = bytearray(data)
        changed[place] ^= 1
        path.write_bytes(changed)
        try:
            graph_places(output, KEY)
        except InvalidInputError:
            continue
        accepted += 1
        try:
            load_graph_file(output, KEY)
        except (InvalidInputError, ValueError, RuntimeError, KeyError):
            continue
        except Exception as error:  # DGL has classes of its own
            assert type(error).__module__.startswith("dgl")
    assert accepted < len(outside) / 10
