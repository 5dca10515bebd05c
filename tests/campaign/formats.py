"""Damaged files of every output format, under a manifest with their new sizes and checksums."""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import tempfile
import zipfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from partition_ops.artifacts import layout
from partition_ops.system.dgl_import import import_dgl
from tests.campaign.commands import Command, succeed
from tests.campaign.frame import Attempt, Case, Defect, Verdict
from tests.damage import blank_piece, change_number, cut_end, cut_piece, flip, insert, repeat_piece
from tests.graphs import library

FORMATS = "dgl,graphbolt,graphbolt-dataset,graphstorm,pyg"
FOLDERS = ("partitions", "formats", "assignment", "idmap", "schema")
CHANGES: tuple[Callable[[bytearray, random.Random], None], ...] = (
    *(flip, flip, flip, cut_end, cut_piece, insert, repeat_piece, blank_piece, change_number),
)


@cache
def finished() -> Path:
    """Return a folder with a graph ``in`` and its output ``out`` in all formats, once for each process."""
    folder = Path(tempfile.mkdtemp(prefix="campaign-formats-"))
    library().write(folder / "in")
    words = ["run", folder / "in", folder / "out", "--num-parts", "2", "--engine", "random"]
    succeed(Command([*words, "--formats", FORMATS], folder / "log"))
    return folder


def damaged_format(attempt: Attempt) -> Verdict:
    """Damage a file: `verify` says so, or what the file holds is the same."""
    known, chance, out = finished(), attempt.random, attempt.folder / "out"
    shutil.copytree(known / "out", out)
    files = sorted(path for name in FOLDERS for path in (out / name).rglob("*") if path.is_file())
    path = chance.choice(files)
    key, data = path.relative_to(out).as_posix(), bytearray(path.read_bytes())
    change = chance.choice(CHANGES)
    change(data, chance)
    path.write_bytes(data)
    _mend_manifest(out / layout.MANIFEST, key, bytes(data))
    command = Command(["verify", known / "in", out], attempt.folder / "log")
    code, said = command.wait(), command.output()
    what = f"{key} by {change.__name__}: verify ended with {code}: {said}"
    if code not in (0, 1, 3) or "Traceback" in said or "unexpected" in said:
        raise Defect(what)
    if code:
        return Verdict.REFUSED
    if not _same(known / "out" / key, path):
        raise Defect(f"verify accepts other content. {what}")
    return Verdict.SAME


def _mend_manifest(manifest: Path, key: str, data: bytes) -> None:
    document = json.loads(manifest.read_text())
    for artifact in document["artifacts"]:
        if artifact["key"] == key:
            artifact.update(size=len(data), sha256=hashlib.sha256(data).hexdigest())
    manifest.write_text(json.dumps(document))


def _same(first: Path, second: Path) -> bool:
    """Return whether two files hold the same for their readers, of which one may end its process."""
    if first.read_bytes() == second.read_bytes():
        return True
    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if _values(first) == _values(second) else 1)
        finally:
            os._exit(2)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def _values(path: Path) -> Any:
    """Return what a reader sees of a file, as values that can be compared."""
    if path.suffix == ".json":
        return json.loads(path.read_bytes())
    if path.suffix == ".npy":
        array = np.load(path)
        return array.dtype.str, array.shape, array.tobytes()
    if path.suffix == ".parquet":
        return pq.read_table(path).to_pydict()
    if path.suffix == ".pt":
        with zipfile.ZipFile(path) as file:
            return {name: file.read(name) for name in file.namelist() if not name.startswith("__")}
    if path.suffix == ".dgl":
        return _of_dgl(path)
    return path.read_bytes().split()


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


CASES = [Case("damage, formats", damaged_format, 5_000, 2)]
