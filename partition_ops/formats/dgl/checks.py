"""Checks of DGL's own files for ``verify``: the partition config, the fields of the graphs, DGL's loaders.

They share no code with what writes the files: values are read by DGL, if it is installed. Where arrays end is
read by our own code, because DGL's reader of files that are cut short crashes the process.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from partition_ops.artifacts.book import Book
from partition_ops.formats.columns import Array
from partition_ops.formats.dgl.array_places import GRAPH, PARTITION_FILES, complete_copy
from partition_ops.formats.dgl.loaded_files import has_dgl, load_graph_file
from partition_ops.formats.findings import Findings
from partition_ops.formats.format import Format
from partition_ops.storage import Store
from partition_ops.system.dgl_import import import_dgl
from partition_ops.system.extras import not_installed
from partition_ops.system.temporary_folders import temporary_folder

CHECKS = {
    "partition-book": "DGL's partition book maps new IDs to partition, type and type-wise ID, and back",
    "dgl-load": "dgl.distributed.load_partition loads every partition with DGL's debug checks",
}
CONFIG_FILES = {"part_graph": "graph.dgl", "node_feats": "node_feat.dgl", "edge_feats": "edge_feat.dgl"}
NODE_FIELDS = {"_ID": "int64", "part_id": "int64", "inner_node": "uint8", "orig_id": "int64"}
EDGE_FIELDS = {"_ID": "int64", "inner_edge": "uint8", "orig_id": "int64"}
TYPE_FIELD = {"_TYPE": "int32"}  # only if there are several types, as in DGL


def check_config(findings: Findings, output: Store, key: str, expected: Book) -> None:
    """Check ``<graph>.json``, which has the key ``key``."""
    config: dict[str, Any] | None = None
    with findings.check("configuration"):
        found = output.read_json(key)
        if findings.same("configuration", "the type of the partition config", type(found), dict):
            config = found
            _check_values(findings, found, expected)
    if config is not None:
        for check, key, ranges in (
            ("node-ranges", "node_map", expected.node_ranges()),
            ("edge-ranges", "edge_map", expected.edge_ranges()),
        ):
            with findings.check(check):
                if findings.same(check, f"the list of types in {key}", sorted(config[key]), sorted(ranges)):
                    for name, of_type in ranges.items():
                        findings.same(check, f"{key}[{name!r}]", config[key][name], of_type)


def check_partition(
    form: Format, findings: Findings, output: Store, part: int, expected: Book, options: Mapping[str, Any]
) -> None:
    """Check the fields of ``graph.dgl``, DGL's partition book, and that DGL loads the partition.

    Args:
        form: Knows where the files are.
        findings: Takes the failures.
        output: Root of the output.
        part: Number of the partition.
        expected: The book that the output should have.
        options: Options of ``convert``.

    Peak memory: the partition.
    """
    with temporary_folder() as folder:
        files = _Files(form, output, part, expected.graph_name, Path(folder))
        _check_fields(findings, files, expected, tuple(options.get("graph_formats", ["coo"])))
        if not has_dgl():
            for check in CHECKS:
                findings.leave_unchecked(check, str(not_installed("DGL's loader", "dgl")))
            return
        _check_book(findings, files, expected)
        _check_load(findings, files, expected)


class _Files:
    """The files of a partition and the partition config, on the local disk in the tree that DGL reads.

    Args:
        form: Knows where the files are.
        output: Root of the output.
        part: Number of the partition.
        graph_name: Name of the graph.
        folder: Takes links to the local copies of the files.
    """

    def __init__(self, form: Format, output: Store, part: int, graph_name: str, folder: Path) -> None:
        self.part = part
        self._part_folder = form.part_folder(part)
        self.output = output
        self._folder = folder
        self._config = form.key(f"{graph_name}.json")

    def config(self) -> str:
        return str(self._link(self._config))

    def key(self, name: str) -> str:
        return f"{self._part_folder}/{name}"

    def complete(self, name: str) -> str:
        key = self.key(name)
        complete_copy(self.output, key)
        return str(self._link(key))

    def _link(self, key: str) -> Path:
        link = self._folder / key
        if not link.exists():
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(self.output.local_copy(key))
        return link


def config_values(expected: Book) -> dict[str, Any]:
    """Return the values in a partition config that do not depend on the files of the format."""
    return {
        "graph_name": expected.graph_name,
        "num_nodes": expected.num_nodes,
        "num_edges": expected.num_edges,
        "num_parts": expected.num_parts,
        "halo_hops": expected.num_hops,
        "ntypes": {name: type_id for type_id, name in enumerate(expected.node_types)},
        "etypes": {name: type_id for type_id, name in enumerate(expected.edge_types)},
    }


def _check_values(findings: Findings, config: Mapping[str, Any], expected: Book) -> None:
    for key, value in config_values(expected).items():
        findings.same("configuration", key, config.get(key), value)
    findings.same("configuration", "the type of part_method", type(config.get("part_method")), str)
    part_keys = sorted(key for key in config if re.fullmatch(r"part-\d+", key))
    wanted = sorted(f"part-{part}" for part in range(expected.num_parts))
    findings.same("configuration", "the list of partitions", part_keys, wanted)
    for part in range(expected.num_parts):
        files = {key: f"part{part}/{name}" for key, name in CONFIG_FILES.items()}
        findings.same("configuration", f"part-{part}", config.get(f"part-{part}"), files)


def _check_fields(findings: Findings, files: _Files, expected: Book, formats: tuple[str, ...]) -> None:
    with findings.check("fields"):
        graph = load_graph_file(files.output, files.key(GRAPH))
        where = f"dgl, part {files.part}"
        types = {} if expected.is_homogeneous else TYPE_FIELD
        for kind, data, fields in (
            ("node", graph.nodes, NODE_FIELDS | types),
            ("edge", graph.edges, EDGE_FIELDS | types),
        ):
            dtypes = {name: str(values.dtype) for name, values in data.items()}
            findings.same("fields", f"{where}: {kind} fields", sorted(dtypes.items()), sorted(fields.items()))
        findings.same("fields", f"{where}: formats", graph.formats, formats)


def _check_load(findings: Findings, files: _Files, expected: Book) -> None:
    where = f"part {files.part}"
    with findings.check("dgl-load"):
        config = files.config()
        for name in PARTITION_FILES:
            files.complete(name)
        try:
            with _dgl_checks_itself():
                loaded = import_dgl().distributed.load_partition(config, files.part)
        except Exception as error:  # any exception of DGL is a failure of this check
            findings.fail("dgl-load", f"{where}: DGL raises {type(error).__name__}: {error}")
            return
        findings.same("dgl-load", f"{where}: the graph's name", loaded[4], expected.graph_name)
        findings.same("dgl-load", f"{where}: the node types", loaded[5], expected.node_types)
        findings.same("dgl-load", f"{where}: the edge types", loaded[6], _triples(expected))


def _check_book(findings: Findings, files: _Files, expected: Book) -> None:
    """Ask the partition book about every ID of a partition. Peak memory: some arrays of these IDs."""
    check, part = "partition-book", files.part
    with findings.check(check):
        book = import_dgl().distributed.load_partition_book(files.config(), part)[0]
        findings.same(check, f"part {part}: partid", book.partid, part)
        findings.same(check, f"part {part}: num_partitions", book.num_partitions(), expected.num_parts)
        counts = book.metadata()[part]
        for key, by_type in (("num_nodes", expected.node_counts), ("num_edges", expected.edge_counts)):
            number = sum(of_type[part] for of_type in by_type.values())
            findings.same(check, f"part {part}: {key}", counts[key], number)
        nodes = (book.nid2partid, book.map_to_per_ntype, book.map_to_homo_nid, book.partid2nids)
        _ask(findings, part, nodes, expected.node_ranges(), expected.node_types)
        edges = (book.eid2partid, book.map_to_per_etype, book.map_to_homo_eid, book.partid2eids)
        _ask(findings, part, edges, expected.edge_ranges(), _triples(expected))


def _ask(
    findings: Findings,
    part: int,
    methods: tuple[Any, Any, Any, Any],
    ranges: Mapping[str, list[list[int]]],
    types: list[Any],
) -> None:
    """Ask the partition book about every node, or every edge, of a partition.

    Args:
        findings: Takes the failures.
        part: Number of the partition.
        methods: The methods of the book that return partitions, types and type-wise IDs, homogeneous IDs,
            and the IDs of a partition.
        ranges: New IDs by type name and partition, half-open.
        types: The types as the book takes them, in the order of ``ranges``.
    """
    part_of, to_typed, to_homogeneous, of_part = methods
    for type_id, (by_part, type_name) in enumerate(zip(ranges.values(), types, strict=True)):
        new = np.arange(*by_part[part])
        if not len(new):  # DGL's searches do not take empty tensors
            continue
        typed = np.arange(len(new)) + sum(end - begin for begin, end in by_part[:part])
        ids, typed_ids = map(import_dgl().backend.tensor, (new, typed))
        found_types, found_typed = to_typed(ids)
        for answer, found, expected in (
            ("partition", part_of(ids), np.full(len(new), part)),
            ("partition of type-wise IDs", part_of(typed_ids, type_name), np.full(len(new), part)),
            ("type", found_types, np.full(len(new), type_id)),
            ("type-wise ID", found_typed, typed),
            ("homogeneous ID", to_homogeneous(typed_ids, type_name), new),
            ("IDs of the partition", of_part(part, type_name), typed if len(types) > 1 else new),
        ):
            values: Array = found.numpy()
            findings.equal(
                "partition-book", f"part {part}, {type_name!r}: {answer}", values, expected, at="ID"
            )


def _triples(expected: Book) -> list[tuple[str, ...]]:
    return [tuple(name.split(":")) for name in expected.edge_types]


@contextmanager
def _dgl_checks_itself() -> Iterator[None]:
    """Set the environment variable with which DGL checks what it loads, while the context lasts."""
    name = "DGL_DIST_DEBUG"
    before = os.environ.get(name)
    os.environ[name] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before
