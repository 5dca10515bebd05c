"""Graphs that were published wrongly, or ended with a traceback: each is refused or published rightly."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from partition_ops.artifacts import layout
from partition_ops.chunked.duplicate_search import DuplicateSearch
from partition_ops.chunked.metadata import load_metadata
from partition_ops.errors import InvalidInputError, StorageError
from partition_ops.jobs.options import RunConfig
from partition_ops.jobs.whole_job import run_job
from partition_ops.stages.validate.options import ValidateConfig
from partition_ops.stages.validate.validate import validate_graph
from partition_ops.storage import Store, open_store
from partition_ops.verification import verify_output
from tests.graphs import Edges, Layout, SmallGraph, Values

Change = Callable[[Path, dict[str, Any]], None]
NODES = 6


def graph(**fields: Any) -> SmallGraph:
    src, dst = [0, 1, 2, 3, 4, 5], [1, 2, 3, 4, 5, 0]
    values = [Values("a", "x", np.arange(NODES, dtype=np.float32))]
    return SmallGraph({"a": NODES}, {"a:r:a": Edges(src, dst, Layout("csv"))}, values, **fields)


def set_feature(name: str, spec: dict[str, Any]) -> Change:
    def change(folder: Path, document: dict[str, Any]) -> None:
        document["node_data"]["a"] = {name: spec}

    return change


def feature_text(text: str, key: str = "x.csv") -> Change:
    def change(folder: Path, document: dict[str, Any]) -> None:
        (folder / key).write_text(text)
        set_feature("x", Layout("csv").spec([key]))(folder, document)

    return change


def bad_boolean(folder: Path, document: dict[str, Any]) -> None:
    np.save(folder / "x.npy", np.array([0, 1, 2, 0, 1, 255], np.uint8))
    data = (folder / "x.npy").read_bytes().replace(b"'|u1'", b"'|b1'")
    (folder / "x.npy").write_bytes(data)
    set_feature("x", Layout("numpy").spec(["x.npy"]))(folder, document)


def array_of(shape: tuple[int, ...]) -> Change:
    def change(folder: Path, document: dict[str, Any]) -> None:
        np.save(folder / "x.npy", np.zeros(shape, np.float32))
        set_feature("x", Layout("numpy").spec(["x.npy"]))(folder, document)

    return change


def rename_node_type(name: str) -> Change:
    def change(folder: Path, document: dict[str, Any]) -> None:
        edge_type = f"{name}:r:{name}"
        document["node_type"], document["edge_type"] = [name], [edge_type]
        document["edges"] = {edge_type: document["edges"]["a:r:a"]}
        document["node_data"] = {name: document["node_data"]["a"]}

    return change


def edge_text(text: str, key: str = "e.csv") -> Change:
    def change(folder: Path, document: dict[str, Any]) -> None:
        (folder / key).write_text(text)
        document["edges"]["a:r:a"]["data"] = [key]
        document["num_edges_per_chunk"] = [[len(text.strip().splitlines())]]

    return change


def nothing(folder: Path, document: dict[str, Any]) -> None:
    pass


def many_nodes(count: int) -> Change:
    def change(folder: Path, document: dict[str, Any]) -> None:
        document["num_nodes_per_chunk"] = [[count]]
        document["node_data"] = {}

    return change


def long_feature_name(folder: Path, document: dict[str, Any]) -> None:
    document["node_data"]["a"] = {"n" * 70_000: document["node_data"]["a"]["x"]}


def too_many_rows(folder: Path, document: dict[str, Any]) -> None:
    """A small file, whose footer says that it has three million rows."""
    rows = np.zeros(3 << 20, np.int64)
    pq.write_table(pa.table({"src": rows, "dst": rows}), folder / "e.parquet")
    document["edges"]["a:r:a"] = Layout("parquet").spec(["e.parquet"])


def fifo(key: str) -> Change:
    def change(folder: Path, document: dict[str, Any]) -> None:
        (folder / key).unlink(missing_ok=True)
        os.mkfifo(folder / key)
        document["edges"]["a:r:a"]["data"] = [key]

    return change


RING = "".join(f"{node},{(node + 1) % NODES}\n" for node in range(NODES))
WIDE = "".join(",".join([f"1.{0:0999}"] * 100) + "\n" for _ in range(NODES))
GOOD: dict[str, tuple[Change, dict[str, Any]]] = {
    "a graph with the name of a folder": (nothing, {"name": "part0"}),
    "32 dimensions": (array_of((NODES, *[1] * 31)), {}),
    "a CSV feature that is never a number": (feature_text("nan\n" * NODES), {}),
    "a CSV feature with a first line of 100 kB": (feature_text(WIDE), {}),
    "a type that is no formula": (rename_node_type("$^$"), {}),
    "an ID with many zeros": (edge_text(RING + "1," + "0" * 140_000 + "3\n"), {}),
    "CSV named .gz": (edge_text(RING, "e.gz"), {}),
    "CSV named .bz2": (edge_text(RING, "e.bz2"), {}),
    "CSV named .lz4": (edge_text(RING, "e.lz4"), {}),
    "CSV named .zst": (edge_text(RING, "e.zst"), {}),
    "a CSV feature named .gz": (feature_text("1.5\n" * NODES, key="x.gz"), {}),
}
BAD: dict[str, tuple[Change, str]] = {
    "a boolean that is 2": (bad_boolean, r"neither 0 nor 1\. Found: the byte 2 at \[2\]"),
    "41 dimensions": (array_of((NODES, *[1] * 40)), "too many dimensions. Found: 41"),
    "a feature with a long name": (long_feature_name, r"a feature name .* \(70,000 characters\)"),
    "a type with the name of an unfinished file": (rename_node_type("x.partial-y"), "the node type"),
    "a long field": (edge_text(RING + "1," + "x" * 140_000 + "2\n"), "line 7: field larger than"),
    "a long line": (edge_text(RING + "1," + "1" * (17 << 20) + "\n"), "line 6: the next line has more than"),
    "a long first line": (edge_text("1," * (9 << 20) + "\n"), "line 1 is too long"),
    "hexadecimal IDs": (edge_text("0,1\n0x1,0x2\n2,0XA\n"), r"2 non_integer_rows .* '0x1,0x2' in row 1"),
    "a hexadecimal feature": (feature_text("1\n0x2\n3\n4\n5\n6\n"), "'0x2' in line 2"),
    "2**31 nodes of two types": (many_nodes(2**31), "more nodes than fit|joins too many nodes"),
    "more rows than memory": (too_many_rows, "3145728 rows in e.parquet.*metadata.json says 6"),
    "a FIFO of edges": (fifo("e.csv"), "no file e.csv"),
    "a FIFO as metadata.json": (fifo("metadata.json"), "metadata.json is not a file"),
}


def prepare(folder: Path, change: Change, fields: dict[str, Any]) -> tuple[Store, Store]:
    """Write a graph with a change; return the roots of the graph and of the output."""
    path = graph(**fields).write(folder / "graph")
    document = json.loads((path / "metadata.json").read_text())
    change(path, document)
    if (path / "metadata.json").is_file():
        (path / "metadata.json").write_text(json.dumps(document))
    return open_store(str(path)), open_store(str(folder / "out"))


CONFIG = RunConfig(num_parts=2, engine="random", ignore_estimate=True)


@pytest.mark.parametrize("case", GOOD)
def test_what_is_published_passes_verification(tmp_path: Path, case: str) -> None:
    source, destination = prepare(tmp_path, *GOOD[case])
    run_job(CONFIG, source, destination)
    report = verify_output(source, destination)
    assert report.passed, report.summary()


@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be_published_is_refused(tmp_path: Path, case: str) -> None:
    change, message = BAD[case]
    source, destination = prepare(tmp_path, change, {})
    with pytest.raises(InvalidInputError, match=message):
        run_job(CONFIG, source, destination)
    assert not destination.exists(layout.MANIFEST)


def test_a_file_that_is_replaced_between_stages(tmp_path: Path) -> None:
    """It has the same size and the same modification time."""
    source, destination = prepare(tmp_path, nothing, {})
    validate_graph(ValidateConfig(), source, destination)
    path = tmp_path / "graph/node_data/0-0.npy"
    data, times = bytearray(path.read_bytes()), path.stat()
    data[-1] ^= 1
    path.write_bytes(data)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert path.stat().st_mtime_ns == times.st_mtime_ns
    result = validate_graph(ValidateConfig(), source, destination)
    assert not result.skipped
    assert "0-0.npy changed" in result.reason


def test_a_full_disk_in_the_search_for_duplicates(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", disk], capture_output=True)
    if mounted.returncode:
        pytest.skip("only root can mount a small disk")
    try:
        ends = np.arange(20_000)
        metadata = load_metadata(open_store(str(graph().write(tmp_path / "graph"))))
        large = replace(metadata, num_nodes=(20_000,), num_edges=(20_000,))
        search = DuplicateSearch(large, memory=1000, scratch=disk)
        with pytest.raises(StorageError, match=f"no space left in {disk}"):
            search.add(0, ends, ends, ends[::-1].copy())
    finally:
        subprocess.run(["umount", disk], check=True)
