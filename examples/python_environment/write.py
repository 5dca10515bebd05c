"""Write the graph as a folder in DGL's chunked format, in a mixture of file formats."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from examples.python_environment import GRAPH_NAME
from examples.python_environment.tables import Array, Graph
from partition_ops.system.progress import Advance, Progress

NUMPY: dict[str, Any] = {"name": "numpy"}
PARQUET: dict[str, Any] = {"name": "parquet"}
SPACES: dict[str, Any] = {"name": "csv", "delimiter": " ", "header": False}
TABS: dict[str, Any] = {"name": "csv", "delimiter": "\t", "header": False}
COMMAS: dict[str, Any] = {"name": "csv", "delimiter": ",", "header": True}
EDGE_FORMATS = {  # Parquet for all others
    "distribution:requires:distribution": COMMAS,
    "distribution:contains:module": SPACES,
    "module:defines_class:class": TABS,
    "module:defines_function:function": COMMAS,
    "class:inherits:class": SPACES,
    "function:encloses:function": TABS,
    "function:instantiates:class": SPACES,
}
FEATURE_FORMATS = {  # NumPy for all others
    "distribution/version": COMMAS,
    "distribution/num_files": SPACES,
    "module/bytes": COMMAS,
    "module/is_package": PARQUET,
    "class/words": PARQUET,
    "class/lines": SPACES,
    "class/has_docstring": PARQUET,
    "function/words": PARQUET,
    "function/lines": PARQUET,
    "function:instantiates:class/num_sites": PARQUET,
}
SUFFIXES = {"numpy": ".npy", "parquet": ".parquet", "csv": ".csv"}


def write_graph(graph: Graph, output: Path, *, chunks: int, progress: Progress) -> None:
    """Write the graph to a new folder, or replace an earlier graph.

    The folder appears complete or not at all: it is written under a hidden name beside its place.

    Args:
        graph: The graph.
        output: The folder.
        chunks: Number of files of every type and feature; fewer if there are fewer rows.
        progress: Shows the progress.
    """
    partial = output.with_name(f".{output.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    features = [table.features for table in graph.nodes.values()]
    features += [table.features for table in graph.edges.values()]
    with progress.step("write", sum(len(one) + 1 for one in features), "arrays") as advance:
        document = _Folder(partial, chunks, advance).write(graph)
    (partial / "metadata.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    _replace(partial, output)


def may_replace(output: Path) -> bool:
    """Return whether a folder is missing, empty, or a graph of this program."""
    if not output.exists() or (output.is_dir() and not any(output.iterdir())):
        return True
    try:
        document = json.loads((output / "metadata.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(document, dict) and document.get("graph_name") == GRAPH_NAME


def chunk_bounds(rows: int, chunks: int) -> list[tuple[int, int]]:
    """Return half-open ranges of rows of nearly equal size; one empty range for no rows."""
    count = max(1, min(chunks, rows))
    return [(rows * i // count, rows * (i + 1) // count) for i in range(count)]


def _replace(partial: Path, output: Path) -> None:
    """Replace a folder by two renames; a kill between them leaves both folders, under hidden names."""
    old = output.with_name(f".{output.name}.old")
    shutil.rmtree(old, ignore_errors=True)
    if output.exists():
        output.rename(old)
    partial.rename(output)
    shutil.rmtree(old, ignore_errors=True)


class _Folder:
    """Writes the files of a graph and collects their entries in ``metadata.json``."""

    def __init__(self, root: Path, chunks: int, advance: Advance) -> None:
        self._root = root
        self._chunks = chunks
        self._advance = advance

    def write(self, graph: Graph) -> dict[str, Any]:
        self._write_names(graph)
        nodes, edges = graph.nodes, graph.edges
        return {
            "graph_name": GRAPH_NAME,
            "node_type": list(nodes),
            "num_nodes_per_chunk": [self._counts(len(table.names)) for table in nodes.values()],
            "num_nodes_per_type": [len(table.names) for table in nodes.values()],
            "edge_type": list(edges),
            "num_edges_per_chunk": [self._counts(len(table.src)) for table in edges.values()],
            "num_edges_per_type": [len(table.src) for table in edges.values()],
            "edges": {name: self._edges(name, table.src, table.dst) for name, table in edges.items()},
            "node_data": self._features("node_data", nodes),
            "edge_data": self._features("edge_data", edges),
            "node_ids": {name: {"data": [_names(name)], "column": "name"} for name in nodes},
        }

    def _counts(self, rows: int) -> list[int]:
        return [end - begin for begin, end in chunk_bounds(rows, self._chunks)]

    def _write_names(self, graph: Graph) -> None:
        """Write the names of nodes, for people and for ``partition-ops idmap restore --ids-from``."""
        folder = self._root / "names"
        folder.mkdir(parents=True)
        for node_type, table in graph.nodes.items():
            ids = np.arange(len(table.names))
            columns = {"orig_id": pa.array(ids), "name": pa.array(table.names, pa.string())}
            pq.write_table(pa.table(columns), self._root / _names(node_type))
            self._advance(1)
        labels = {"label": pa.array(range(len(graph.classes)), pa.int64()), "distribution": graph.classes}
        pq.write_table(pa.table(labels), folder / "label.parquet")

    def _edges(self, edge_type: str, src: Array, dst: Array) -> dict[str, Any]:
        file_format = EDGE_FORMATS.get(edge_type, PARQUET)
        table = pa.table({"src": src, "dst": dst})
        return self._file_set(table, file_format, f"edges/{edge_type.replace(':', '_')}")

    def _features(self, key: str, types: Mapping[str, Any]) -> dict[str, Any]:
        return {
            type_name: {
                name: self._file_set(
                    values,
                    FEATURE_FORMATS.get(f"{type_name}/{name}", NUMPY),
                    f"{key}/{type_name.replace(':', '_')}/{name}",
                )
                for name, values in table.features.items()
            }
            for type_name, table in types.items()
            if table.features
        }

    def _file_set(self, values: Array | pa.Table, file_format: dict[str, Any], stem: str) -> dict[str, Any]:
        files = []
        for number, (begin, end) in enumerate(chunk_bounds(len(values), self._chunks)):
            file = f"{stem}-{number:05}{SUFFIXES[file_format['name']]}"
            path = self._root / file
            path.parent.mkdir(parents=True, exist_ok=True)
            _write(path, values[begin:end], file_format)
            files.append(file)
        self._advance(1)
        return {"format": file_format, "data": files}


def _names(node_type: str) -> str:
    return f"names/{node_type}.parquet"


def _write(path: Path, values: Array | pa.Table, file_format: dict[str, Any]) -> None:
    if file_format["name"] == "numpy":
        np.save(path, np.ascontiguousarray(values), allow_pickle=False)
        return
    if file_format["name"] == "parquet":
        pq.write_table(values if isinstance(values, pa.Table) else pa.table({"value": _column(values)}), path)
        return
    table = values if isinstance(values, pa.Table) else pa.table(dict(_columns(values)))
    options = pa_csv.WriteOptions(
        include_header=file_format["header"], delimiter=file_format["delimiter"], quoting_style="none"
    )
    pa_csv.write_csv(table, path, options)


def _column(values: Array) -> pa.Array:
    flat = pa.array(values.reshape(-1))
    return flat if values.ndim == 1 else pa.FixedSizeListArray.from_arrays(flat, values.shape[1])


def _columns(values: Array) -> Iterator[tuple[str, Array]]:
    """Return the columns of a table for a vector or a matrix."""
    for number, column in enumerate(np.atleast_2d(values.T)):
        yield f"value_{number}", column
