"""Random damage to a chunked graph on disk: one seed, one kind of damage."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tests.graphs import Layout, SmallGraph, library

NUMBERS = (0, 1, -1, 2, 3, 7, 19, 255, 1000, 2**31, 2**32 + 1, 2**40, 2**60, 2**62, 2**63 - 1, 2**63, 2**64)
STRANGE: tuple[Any, ...] = (
    *(
        *NUMBERS,
        1.0,
        1.5,
        1e300,
        True,
        False,
        None,
        "",
        " ",
        "x",
        "\0",
        "a\nb",
        "\ud800",
        "..",
        "../x",
        "/etc/passwd",
    ),
    *("s3://a/b", "a/../b", "x" * 300, "csv", "parquet", "numpy", "paper", "author:writes:paper", "a:b:c"),
    *([], {}, [[]], [[1]], ["x"], {"a": 1}, [None], "🙂", ",", " ", "\t", '"', "1", "-", "\u00e9"),
)


def base_graphs() -> dict[str, SmallGraph]:
    """Good graphs in all the ways in which a graph can be written."""
    layouts = {
        "csv": Layout("csv"),
        "csv with a header": Layout("csv", delimiter=" ", header=True, flagged=True),
        "parquet": Layout("parquet"),
    }
    graphs = {name: chunked(library(papers=6, layout=layout)) for name, layout in layouts.items()}
    graphs["parquet, counts by type"] = replace(graphs["parquet"], counts="type")
    graphs["csv, counts both ways"] = replace(graphs["csv"], counts="both")
    return graphs


def chunked(graph: SmallGraph) -> SmallGraph:
    """Two files for everything, features in all formats."""
    formats = ("numpy", "parquet", "csv", "numpy")
    edges = {
        name: replace(ends, layout=replace(ends.layout, chunks=_halves(len(ends.src))))
        for name, ends in graph.edges.items()
    }
    values = [
        replace(value, layout=Layout(name if value.array.ndim < 3 else "numpy", _halves(len(value.array))))
        for value, name in zip(graph.node_values, formats, strict=True)
    ]
    year = [replace(v, layout=Layout("parquet", _halves(len(v.array)))) for v in graph.edge_values]
    chunks = {name: _halves(count) for name, count in graph.nodes.items()}
    return replace(graph, edges=edges, node_values=values, edge_values=year, node_chunks=chunks)


def _halves(count: int) -> tuple[int, int]:
    return count // 2, count - count // 2


def damage(folder: Path, seed: int) -> str:
    """Damage a graph; says how."""
    rng = random.Random(seed)
    done = []
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        kind = rng.choice(KINDS)
        done.append(kind.__name__)
        with suppress(RecursionError):  # the damage before has made it too deep to be read here
            kind(folder, rng)
    return ", ".join(done)


def _data_file(folder: Path, rng: random.Random) -> Path:
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != "metadata.json")
    return rng.choice(files) if files else folder / "metadata.json"


def _bytes_of(change: Callable[[bytearray, random.Random], None]) -> Callable[[Path, random.Random], None]:
    """The same change to the bytes of a data file, or now and then of the metadata."""

    def changed(folder: Path, rng: random.Random) -> None:
        path = folder / "metadata.json" if rng.random() < 0.15 else _data_file(folder, rng)
        if path.is_file():
            content = bytearray(path.read_bytes())
            change(content, rng)
            path.write_bytes(content)

    changed.__name__ = change.__name__
    return changed


def flip(content: bytearray, rng: random.Random) -> None:
    for _ in range(rng.choice((1, 1, 2, 8))):
        if content:
            content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)


def cut_end(content: bytearray, rng: random.Random) -> None:
    del content[rng.randrange(len(content) + 1) :]


def cut_piece(content: bytearray, rng: random.Random) -> None:
    start = rng.randrange(len(content) + 1)
    del content[start : start + rng.choice((1, 2, 8, 64))]


def insert(content: bytearray, rng: random.Random) -> None:
    start = rng.randrange(len(content) + 1)
    content[start:start] = rng.choice(
        (b"\0", b"\n", b"\r", b'"', b",", b"-", b"9", b"\xff", rng.randbytes(9))
    )


def repeat_piece(content: bytearray, rng: random.Random) -> None:
    start = rng.randrange(len(content) + 1)
    content[start:start] = content[start : start + rng.choice((4, 16, 256))]


def blank_piece(content: bytearray, rng: random.Random) -> None:
    start = rng.randrange(len(content) + 1)
    piece = content[start : start + rng.choice((1, 4, 32))]
    content[start : start + len(piece)] = bytes(len(piece))


def change_number(content: bytearray, rng: random.Random) -> None:
    found = list(re.finditer(rb"\d+", content))
    if found:
        place = rng.choice(found)
        content[place.start() : place.end()] = str(rng.choice(NUMBERS)).encode()


def remove_file(folder: Path, rng: random.Random) -> None:
    path = _data_file(folder, rng)
    path.unlink()
    if rng.random() < 0.2:
        path.mkdir()


def swap_files(folder: Path, rng: random.Random) -> None:
    first, second = _data_file(folder, rng), _data_file(folder, rng)
    contents = first.read_bytes(), second.read_bytes()
    first.write_bytes(contents[1])
    second.write_bytes(contents[0])


def copy_file(folder: Path, rng: random.Random) -> None:
    _data_file(folder, rng).write_bytes(_data_file(folder, rng).read_bytes())


def replace_array(folder: Path, rng: random.Random) -> None:
    """Another .npy in the place of a file."""
    shape = rng.choice(((), (0,), (3,), (3, 8), (2, 0), (3, 2, 3)))
    dtype = rng.choice(("float16", ">f4", "complex64", "U3", "M8[s]", "bool", "uint64", "i1,f4", "V5"))
    with _data_file(folder, rng).open("wb") as stream:
        np.save(stream, np.zeros(shape, dtype))


def _document(folder: Path) -> Any:
    try:
        return json.loads((folder / "metadata.json").read_bytes())
    except (ValueError, RecursionError):
        return {}


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every container inside a document, with every key or index of it."""
    entries = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    for key, inner in entries:
        yield value, key
        yield from _places(inner)


def _json_of(change: Callable[[Any, Any, random.Random], None]) -> Callable[[Path, random.Random], None]:
    def changed(folder: Path, rng: random.Random) -> None:
        document = _document(folder)
        places = list(_places(document))
        if places:
            change(*rng.choice(places), rng)
            (folder / "metadata.json").write_text(json.dumps(document))

    changed.__name__ = change.__name__
    return changed


def drop_entry(container: Any, key: Any, rng: random.Random) -> None:
    del container[key]


def retype_entry(container: Any, key: Any, rng: random.Random) -> None:
    container[key] = rng.choice(STRANGE)


def nudge_entry(container: Any, key: Any, rng: random.Random) -> None:
    if isinstance(container[key], int):
        container[key] += rng.choice((-1, 1, 1 << 40, 1 << 62))
    else:
        container[key] = rng.choice((container[key], [container[key]], str(container[key])))


def copy_entry(container: Any, key: Any, rng: random.Random) -> None:
    if isinstance(container, list):
        container.insert(rng.randrange(len(container) + 1), container[key])
    else:
        container[rng.choice((f"{key}2", "paper", "author", "x", "\ud800"))] = container[key]


def nest_entry(container: Any, key: Any, rng: random.Random) -> None:
    for _ in range(rng.choice((1, 50, 400))):
        container[key] = [container[key]]


def repeat_key(folder: Path, rng: random.Random) -> None:
    """A key of some object a second time: JSON allows it, and the last one wins with most readers."""
    document, found = _document(folder), []
    for container, key in [*_places(document)]:
        if isinstance(container, dict):
            found.append((container, key))
    if found:
        container, key = rng.choice(found)
        container["partition_ops.againpartition_ops."] = rng.choice((container[key], *STRANGE[:20], {}, []))
        text = json.dumps(document).replace('"partition_ops.againpartition_ops."', json.dumps(key))
        (folder / "metadata.json").write_text(text)


def nest_document(folder: Path, rng: random.Random) -> None:
    depth = rng.choice((10, 300, 900, 980, 990, 995, 100_000))
    inside = rng.choice(('"graph_name"', '"node_type"', '"edges"', '"else"'))
    text = json.dumps(_document(folder))
    again = f"{{{inside}: {'[' * depth}{']' * depth}, {text[1:]}"
    (folder / "metadata.json").write_text(again)


KINDS = (
    *map(_bytes_of, (flip, flip, cut_end, cut_piece, insert, repeat_piece, blank_piece, change_number)),
    *map(_json_of, (drop_entry, retype_entry, retype_entry, nudge_entry, copy_entry, nest_entry)),
    *(remove_file, swap_files, copy_file, replace_array, repeat_key, nest_document),
)
