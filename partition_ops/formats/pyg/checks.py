"""PyG's files for ``verify``: as neutral columns, and checks that only they have.

This shares no code with what writes the files. New IDs are counted from PyG's own maps, ``node_map`` and
``edge_map``: so a wrong entry in a map is a wrong ID in a partition.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

from partition_ops.artifacts.book import Book, read_book
from partition_ops.errors import InvalidInputError
from partition_ops.formats.columns import Array
from partition_ops.formats.findings import Findings
from partition_ops.formats.format import Format
from partition_ops.formats.torch_files import check_torch_file
from partition_ops.formats.torch_reader import read_torch_file
from partition_ops.storage import Store

TRAINER = "trainer_id"  # a feature that the input does not have
CHECKS = {
    "pyg-order": "PyG's edges are sorted by destination, with the sizes of their node types",
    "pyg-maps": "PyG's maps and labels have an entry for every node and edge of the input",
}


class _Files:
    """The files of one output."""

    def __init__(self, form: Format, output: Store) -> None:
        self._form = form
        self._output = output
        self.book = read_book(output)
        self.meta = output.read_json(f"{form.folder}/META.json")
        self.names = output.read_json(f"{form.folder}/features.json")
        self.hetero = not self.book.is_homogeneous

    def load(self, path: str) -> Any:
        """Return the content of a file.

        Raises:
            InvalidInputError: It is missing, or is not a file of torch.
        """
        key = f"{self._form.folder}/{path}"
        if not self._output.exists(key):
            raise InvalidInputError(f"There is no {self._output.uri_of(key)}", remedy="Run convert again.")
        try:
            file = self._output.local_copy(key)
            check_torch_file(file, file.stat().st_mtime_ns)
            return read_torch_file(file)
        except Exception as error:
            raise InvalidInputError(
                f"{self._output.uri_of(key)} is not a file of torch", found=f"{type(error).__name__}: {error}"
            ) from error

    def part(self, part: int, name: str) -> Any:
        return self.load(f"part_{part}/{name}")

    def map(self, kind: str, type_name: str) -> Array:
        """Return a tensor over all nodes or edges of a type."""
        path = f"{kind}/{type_name.replace(':', '__')}.pt" if self.hetero else f"{kind}.pt"
        found: Array = self.load(path)
        return found

    def by_edge_type(self, content: Any) -> dict[str, Any]:
        """Return the entries of ``graph.pt`` or ``edge_feats.pt`` by ``src:rel:dst``."""
        if self.hetero:
            return {":".join(key): entry for key, entry in content.items()}
        return {self.book.edge_types[0]: content} if content else {}

    def by_node_type(self, content: Any) -> dict[str, Any]:
        return dict(content) if self.hetero else {self.book.node_types[0]: content}

    def edges(self, part: int) -> dict[str, dict[str, Array]]:
        """Return row, col and type-wise original ``orig`` of the edges of a partition, by type."""
        graph = self.by_edge_type(self.part(part, "graph.pt"))
        found, first = {}, 0
        for name in self.book.edge_types:
            edges = {key: graph[name][key] for key in ("row", "col", "edge_id")}
            found[name] = {**edges, "orig": edges["edge_id"] - first}
            first += len(self.map("edge_map", name))
        return found


def load(form: Format, output: Store, part: int, groups: Collection[str]) -> dict[str, Array]:
    """Return groups of columns; see `PyG.load`."""
    files = _Files(form, output)
    found: dict[str, Array] = {}
    if {"nodes", "edges", "edge_orig_ids", "edge_features"} & {*groups}:
        edges = files.edges(part)
        orders = {name: np.argsort(entry["orig"], kind="stable") for name, entry in edges.items()}
        if {"nodes", "edges"} & {*groups}:
            found |= _graph(files, part, edges, orders)
        if "edge_orig_ids" in groups:
            found |= {f"edge_orig_ids/{name}": e["orig"][orders[name]] for name, e in edges.items()}
        if "edge_features" in groups:
            found |= _edge_features(files, part, edges, orders)
    if {"node_features", "node_orig_ids"} & {*groups}:
        found |= _node_groups(files, part, groups)
    return found


def _node_groups(files: _Files, part: int, groups: Collection[str]) -> dict[str, Array]:
    entries = files.by_node_type(files.part(part, "node_feats.pt"))
    found: dict[str, Array] = {}
    first = 0
    for name in files.book.node_types:
        entry = entries.get(name)
        if entry is not None:
            ids = entry["global_id"] - first
            if "id" in entry and not np.array_equal(ids, entry["id"]):
                raise InvalidInputError(f"'id' and 'global_id' of {name!r} in part_{part} differ")
            if "node_orig_ids" in groups:
                found[f"node_orig_ids/{name}"] = ids
        elif "node_orig_ids" in groups:
            found[f"node_orig_ids/{name}"] = np.empty(0, np.int64)
        if "node_features" in groups:
            values = _values(entry, files.names["nodes"].get(name, {}), entries)
            found |= {f"node_features/{name}/{ours}": array for ours, array in values.items()}
        first += len(files.map("node_map", name))
    return found


def _edge_features(files: _Files, part: int, edges: Any, orders: Any) -> dict[str, Array]:
    entries = files.by_edge_type(files.part(part, "edge_feats.pt"))
    found: dict[str, Array] = {}
    for name in files.book.edge_types:
        entry = entries.get(name)
        if entry is not None and not np.array_equal(entry["global_id"], edges[name]["orig"]):
            raise InvalidInputError(
                f"'global_id' of {name!r} in part_{part} is not in the order of the edges"
            )
        values = _values(entry, files.names["edges"].get(name, {}), entries)
        found |= {f"edge_features/{name}/{ours}": array[orders[name]] for ours, array in values.items()}
    return found


def _values(entry: Any, described: dict[str, Any], entries: dict[str, Any]) -> dict[str, Array]:
    """Return the features of a type by their names in the input; empty ones if the type is left out."""
    if entry is not None:
        feats = entry["feats"]
        return {described.get(name, {"name": name})["name"]: feats[name] for name in feats}
    found = {one["name"]: np.empty((0, *one["shape"]), one["dtype"]) for one in described.values()}
    if any(TRAINER in other["feats"] for other in entries.values()):
        found[TRAINER] = np.empty(0, np.int64)
    return found


def _graph(files: _Files, part: int, edges: Any, orders: Any) -> dict[str, Array]:
    """Return nodes and edges in the order of the new IDs, as far as PyG's maps say them."""
    book, node_ranges, edge_ranges = files.book, files.book.node_ranges(), files.book.edge_ranges()
    new_ids, owners = {}, {}
    for name, ranges in node_ranges.items():
        owners[name] = files.map("node_map", name)
        new_ids[name] = _new_ids(owners[name], ranges, "node_map", name)
    inner = [files.by_node_type(files.part(part, "node_feats.pt")).get(name) for name in book.node_types]
    firsts = np.cumsum([0, *(len(owners[name]) for name in book.node_types)])
    own = [
        new_ids[name][entry["global_id"] - first]
        for name, entry, first in zip(book.node_types, inner, firsts, strict=False)
        if entry is not None
    ]
    mine = np.concatenate([np.empty(0, np.int64), *own])
    src = {name: new_ids[name.split(":")[0]][entry["row"]] for name, entry in edges.items()}
    dst = {name: new_ids[name.split(":")[2]][entry["col"]] for name, entry in edges.items()}
    sources = np.unique(np.concatenate([np.empty(0, np.int64), *src.values(), *dst.values()]))
    nodes = np.concatenate([mine, np.setdiff1d(sources, mine)])
    by_new = {name: np.argsort(ids) for name, ids in new_ids.items()}
    types, orig, parts = (np.empty(len(nodes), np.int64) for _ in range(3))
    for type_id, name in enumerate(book.node_types):
        for begin, end in node_ranges[name]:
            here = (nodes >= begin) & (nodes < end)
            ids = by_new[name][np.searchsorted(new_ids[name][by_new[name]], nodes[here])]
            types[here], orig[here], parts[here] = type_id, ids, owners[name][ids]
    place = np.argsort(nodes)
    found: dict[str, list[Array]] = {key: [] for key in ("src", "dst", "new_id", "orig_id", "type_id")}
    for type_id, (name, entry) in enumerate(edges.items()):
        order = orders[name]
        map_ids = _new_ids(files.map("edge_map", name), edge_ranges[name], "edge_map", name)
        found["src"].append(place[np.searchsorted(nodes[place], src[name][order])])
        found["dst"].append(place[np.searchsorted(nodes[place], dst[name][order])])
        found["new_id"].append(map_ids[entry["orig"][order]])
        found["orig_id"].append(entry["orig"][order])
        found["type_id"].append(np.full(len(order), type_id, np.int32))
    return {
        "nodes/new_id": nodes,
        "nodes/orig_id": orig,
        "nodes/part_id": parts,
        "nodes/type_id": types.astype(np.int32),
        **{f"edges/{key}": np.concatenate(values) for key, values in found.items()},
    }


def _new_ids(owners: Array, ranges: list[list[int]], kind: str, name: str) -> Array:
    """Return new IDs by original ID, counted from the partition of each; -1 if it is in none."""
    found = np.full(len(owners), -1, np.int64)
    for part, (begin, end) in enumerate(ranges):
        mine = np.flatnonzero(owners == part)
        if len(mine) != end - begin:
            raise InvalidInputError(
                f"{kind} of {name!r} gives partition {part} {len(mine)} IDs", expected=f"{end - begin}"
            )
        found[mine] = np.arange(begin, end)
    return found


def check_config(form: Format, findings: Findings, output: Store, expected: Book) -> None:
    """Check ``META.json`` and the lengths of labels."""
    with findings.check("configuration"):
        files = _Files(form, output)
        nodes = [len(files.map("node_map", name)) for name in expected.node_types]
        document = {
            "num_parts": expected.num_parts,
            "node_types": expected.node_types if files.hetero else None,
            "edge_types": [name.split(":") for name in expected.edge_types] if files.hetero else None,
            "node_offset": np.cumsum([0, *nodes])[:-1].tolist() if files.hetero else None,
            "is_hetero": files.hetero,
            "is_sorted": True,
        }
        findings.same("configuration", "META.json of pyg", files.meta, document)
    with findings.check("pyg-maps"):
        files = _Files(form, output)
        for name, counts in expected.node_counts.items():
            owners = files.map("node_map", name)
            findings.same("pyg-maps", f"the length of node_map of {name!r}", len(owners), sum(counts))
        for name, counts in expected.edge_counts.items():
            owners = files.map("edge_map", name)
            left = int(np.count_nonzero(owners >= 0))
            findings.same("pyg-maps", f"the number of edges in edge_map of {name!r}", left, sum(counts))


def check_partition(form: Format, findings: Findings, output: Store, part: int, expected: Book) -> None:
    """Check what the neutral columns do not show: the order of the edges, sizes, labels."""
    with findings.check("pyg-order"):
        files = _Files(form, output)
        graph = files.by_edge_type(files.part(part, "graph.pt"))
        totals = {name: sum(counts) for name, counts in expected.node_counts.items()}
        for name in expected.edge_types:
            src, _, dst = name.split(":")
            where, col = f"pyg, part {part}, {name!r}", graph[name]["col"]
            findings.same("pyg-order", f"{where}: size", graph[name]["size"], (totals[src], totals[dst]))
            unsorted = int(np.count_nonzero(np.diff(col) < 0))
            findings.same("pyg-order", f"{where}: the number of edges out of order", unsorted, 0)
    with findings.check("pyg-maps"):
        files = _Files(form, output)
        entries = files.by_node_type(files.part(part, "node_feats.pt"))
        for name, entry in entries.items():
            if "y" in entry["feats"]:
                labels = files.map("labels", name)
                ids = entry["id" if files.hetero else "global_id"]
                found = labels[ids].view(np.uint8).ravel()
                own = np.ascontiguousarray(entry["feats"]["y"]).view(np.uint8).ravel()
                where = f"pyg, part {part}, labels of {name!r}"
                findings.equal("pyg-maps", where, found, own, at="byte")
