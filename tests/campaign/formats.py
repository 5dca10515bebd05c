"""Damaged files of every output format, most of them under a manifest with their new sizes and checksums."""

from __future__ import annotations

import gc
import hashlib
import json
import os
import random
import shutil
import tempfile
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from partition_ops.artifacts import layout
from partition_ops.errors import PartitionOpsError
from partition_ops.formats.graphbolt.checks import CLASSES
from partition_ops.formats.torch_reader import read_torch_file
from partition_ops.storage import open_store
from partition_ops.system.dgl_import import import_dgl
from partition_ops.verification import verify_output
from tests.campaign.children import in_child
from tests.campaign.commands import Command, succeed
from tests.campaign.frame import Attempt, Case, Defect, Verdict
from tests.damage import blank_piece, change_number, cut_end, cut_piece, flip, insert, repeat_piece
from tests.graphs import library

FORMATS = {  # and the format that is written in addition
    "dgl": "dgl",
    "graphbolt": "graphbolt",
    "graphbolt-dataset": "dgl,graphbolt-dataset",
    "graphstorm": "graphstorm",
    "pyg": "dgl,pyg",
}
OTHERS = ("assignment", "convert", "idmap", "schema", "quality/report.json", "quality/history.json")
UNCHANGED = 0.1  # share of the attempts whose manifest has the old checksum
CHANGES: tuple[Callable[[bytearray, random.Random], None], ...] = (
    *(flip, flip, flip, cut_end, cut_piece, insert, repeat_piece, blank_piece, change_number),
)


@cache
def finished(name: str) -> Path:
    """Return a folder with a graph ``in`` and its output ``out`` in a format, once for each process."""
    folder = Path(tempfile.mkdtemp(prefix="campaign-formats-"))
    library(papers=12).write(folder / "in")
    words = ["run", folder / "in", folder / "out", "--num-parts", "2", "--engine", "random"]
    succeed(Command([*words, "--formats", FORMATS[name]], folder / "log"))
    if _verify(folder / "in", folder / "out"):
        raise Defect("verify rejects the output that nobody has changed")
    gc.freeze()  # so that children do not copy what the collector touches
    return folder


def damaged_format(attempt: Attempt) -> Verdict:
    """Damage a file: `verify` says so, or what the file holds is the same."""
    chance, out = attempt.random, attempt.folder / "out"
    name = chance.choice([*FORMATS])
    known = finished(name)
    shutil.copytree(known / "out", out, copy_function=os.link)
    key, data = _choose(name, out, chance)
    change = chance.choice(CHANGES)
    change(data, chance)
    _replace(out / key, bytes(data))
    mended = chance.random() >= UNCHANGED
    if mended:
        _mend(out, key, bytes(data))
    what = f"{name}, {key} by {change.__name__}, {'mended' if mended else 'not mended'}"
    if in_child(partial(_verify, known / "in", out), what):
        return Verdict.REFUSED
    if data == (known / "out" / key).read_bytes():
        return Verdict.SAME
    if not mended or not in_child(partial(_same, known / "out" / key, out / key), what):
        raise Defect(f"verify accepts other content: {what}")
    return Verdict.SAME


def _choose(name: str, out: Path, chance: random.Random) -> tuple[str, bytearray]:
    folder = "partitions" if name == "dgl" else f"formats/{name}"
    chosen = [folder] if chance.random() < 0.75 else OTHERS
    files = [
        path
        for one in chosen
        for path in ([out / one] if (out / one).is_file() else (out / one).rglob("*"))
        if path.is_file()
    ]
    path = chance.choice(sorted(files))
    return path.relative_to(out).as_posix(), bytearray(path.read_bytes())


def _verify(source: Path, output: Path) -> str:
    """Return the failures of `verify`; empty if it accepts the output."""
    try:
        report = verify_output(open_store(str(source)), open_store(str(output)))
    except PartitionOpsError as error:
        if error.exit_code not in (1, 3):
            raise
        return str(error)
    return "" if report.passed else report.summary()


def _replace(path: Path, data: bytes) -> None:
    """Write a file that shares its content with the reference so far."""
    path.unlink()
    path.write_bytes(data)


def _mend(out: Path, key: str, data: bytes) -> None:
    """Write size and checksum of a file into the manifest and the records."""
    for path in (out / layout.MANIFEST, *(out / layout.RECORDS).glob("*.json")):
        document = json.loads(path.read_text())
        found = [entry for entry in document["artifacts"] if entry["key"] == key]
        if found:
            found[0].update(size=len(data), sha256=hashlib.sha256(data).hexdigest())
            _replace(path, json.dumps(document).encode())


def _same(first: Path, second: Path) -> bool:
    """Return whether two files hold the same for their readers."""
    return bool(_values(first) == _values(second))


def _values(path: Path) -> Any:
    """Return what a reader sees of a file, as values that can be compared."""
    if path.suffix in (".json", ".yaml"):
        document = json.loads(path.read_bytes())
        if path.name == "stats.json":
            document.pop("contents", None)  # by which the next run finds files to copy
        return document
    if path.suffix == ".npy":
        array = np.load(path)
        return array.dtype.str, array.shape, array.tobytes()
    if path.suffix == ".parquet":
        return pq.read_table(path).to_pydict()
    if path.suffix == ".pt":
        return _plain(read_torch_file(path, CLASSES))
    if path.suffix == ".dgl":
        return _of_dgl(path)
    return path.read_bytes().split()


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [*map(_plain, value)]
    return _plain(vars(value)) if hasattr(value, "__dict__") else value


def _of_dgl(path: Path) -> Any:
    def plain(tensors: Any) -> dict[str, Any]:
        return {name: (str(one.dtype), one.shape, one.numpy().tobytes()) for name, one in tensors.items()}

    utils = import_dgl().data.utils
    if path.name != "graph.dgl":
        return plain(utils.load_tensors(str(path)))
    graphs, _ = utils.load_graphs(str(path))
    return [
        (graph.num_nodes(), plain(graph.ndata), plain(graph.edata), *(e.tolist() for e in graph.edges()))
        for graph in graphs
    ]


CASES = [Case("damage, formats", damaged_format, 8_000, 20)]
