"""Changes to a finished output, each of which breaks one invariant.

The output is `tests.graphs.library` with duplicates and self-loops, which are dropped, in three partitions.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from partition_ops.system.dgl_import import import_dgl

PART = "partitions/part1"
Change = Callable[[Path], None]


def edit_json(key: str, change: Callable[[Any], None]) -> Change:
    def mutate(output: Path) -> None:
        document = json.loads((output / key).read_text())
        change(document)
        (output / key).write_text(json.dumps(document))

    return mutate


def edit_table(key: str, change: Callable[[dict[str, np.ndarray]], None]) -> Change:
    """Edit the columns of an ID map."""

    def mutate(output: Path) -> None:
        table = pq.read_table(output / key)
        columns = {name: table.column(name).to_numpy().copy() for name in table.column_names}
        change(columns)
        pq.write_table(pa.table(columns), output / key)

    return mutate


def edit_tensors(name: str, change: Callable[[dict[str, Any]], None]) -> Change:
    """Edit a tensor file of partition 1."""

    def mutate(output: Path) -> None:
        files = import_dgl().data.utils
        tensors = {
            key: tensor.clone() for key, tensor in files.load_tensors(str(output / PART / name)).items()
        }
        change(tensors)
        files.save_tensors(str(output / PART / name), tensors)

    return mutate


def edit_graph(change: Callable[[Any], Any]) -> Change:
    """Edit ``graph.dgl`` of partition 1; ``change`` may return another graph."""

    def mutate(output: Path) -> None:
        dgl, path = import_dgl(), str(output / PART / "graph.dgl")
        graph = dgl.load_graphs(path)[0][0]
        dgl.save_graphs(path, [change(graph) or graph], formats="coo")

    return mutate


def edit_field(frame: str, name: str, change: Callable[[Any], None]) -> Change:
    """Edit one field of the nodes or edges of partition 1 in place."""

    def apply(graph: Any) -> None:
        values = getattr(graph, frame)[name].clone()
        change(values)
        getattr(graph, frame)[name] = values

    return edit_graph(apply)


def edit_text(key: str, change: Callable[[list[str]], None]) -> Change:
    def mutate(output: Path) -> None:
        lines = (output / key).read_text().splitlines()
        change(lines)
        (output / key).write_text("".join(f"{line}\n" for line in lines))

    return mutate


def put(where: Any, value: Any) -> Callable[[Any], None]:
    def change(target: Any) -> None:
        target[where] = value

    return change


def add(where: Any, value: Any) -> Callable[[Any], None]:
    def change(target: Any) -> None:
        target[where] = target[where] + value

    return change


def swap(first: int, second: int) -> Callable[[Any], None]:
    """Swap two entries of an array or tensor."""

    def change(target: Any) -> None:
        target[[first, second]] = target[[second, first]]

    return change


def swap_reasons(checks: Any) -> None:
    """The first duplicate as a self-loop."""
    checks[list(checks).index("duplicate_edges")] = "self_loop_edges"


def in_column(name: str, change: Callable[[Any], None]) -> Callable[[Any], None]:
    return lambda columns: change(columns[name])


def rebuilt(graph: Any, src: Any, dst: Any) -> Any:
    """The same graph with other ends of its edges."""
    other = import_dgl().graph((src, dst), num_nodes=graph.num_nodes())
    for frame in ("ndata", "edata"):
        for name, values in getattr(graph, frame).items():
            getattr(other, frame)[name] = values
    return other


def with_swapped_sources(graph: Any) -> Any:
    src, dst = graph.edges(order="eid")
    unlike = int((src != src[0]).nonzero()[0])
    src = src.clone()
    swap(0, unlike)(src)
    return rebuilt(graph, src, dst)


def with_wrong_destination(graph: Any) -> Any:
    src, dst = graph.edges(order="eid")
    dst = dst.clone()
    dst[0] = (dst[0] + 1) % int(graph.ndata["inner_node"].sum())
    return rebuilt(graph, src, dst)


def without_last_halo(graph: Any) -> Any:
    """Its edges go, too, as DGL removes them."""
    return import_dgl().remove_nodes(graph, graph.num_nodes() - 1, store_ids=False)


def with_idle_halo(graph: Any) -> Any:
    """One more halo node, that is the source of nothing."""
    return import_dgl().add_nodes(graph, 1, {name: values[-1:] for name, values in graph.ndata.items()})


def without_last_edge(graph: Any) -> Any:
    return import_dgl().remove_edges(graph, graph.num_edges() - 1, store_ids=False)


def with_last_edge_twice(graph: Any) -> Any:
    src, dst = graph.edges(order="eid")
    data = {name: values[-1:] for name, values in graph.edata.items()}
    return import_dgl().add_edges(graph, src[-1:], dst[-1:], data)


def with_float_ids(graph: Any) -> None:
    graph.ndata["part_id"] = graph.ndata["part_id"].int()


def with_extra_field(graph: Any) -> None:
    graph.edata["weight"] = graph.edata["_ID"]


def first_dropped(output: Path, edge_type: str) -> int:
    return int(pq.read_table(output / f"idmap/dropped/edges/{edge_type}.parquet")["orig_id"][0].as_py())


def keep_dropped_edge(output: Path) -> None:
    """Give the first edge of partition 1 the original ID of a dropped edge."""
    edit_field("edata", "orig_id", put(0, first_dropped(output, "author:writes:paper")))(output)


def list_one_more(output: Path) -> None:
    """List an edge as dropped that is there, and that nothing is wrong with."""
    path = output / DROPPED
    there = int(pq.read_table(output / CITES)["orig_id"][0].as_py())
    table = pq.read_table(path).to_pylist()
    rows = sorted([*table, {"orig_id": there, "check": "duplicate_edges"}], key=lambda row: row["orig_id"])
    pq.write_table(pa.Table.from_pylist(rows), path)


def list_type_without_any(output: Path) -> None:
    shutil.copy(output / DROPPED, output / "idmap/dropped/edges/venue:none:venue.parquet")


def choose(action: str, *documents: tuple[str, tuple[str, ...]]) -> Change:
    """Say that something else was to be done about duplicates."""

    def mutate(output: Path) -> None:
        for key, path in documents:
            document = json.loads((output / key).read_text())
            place = document
            for step in path:
                place = place[step]
            place["duplicate_edges"] = action
            (output / key).write_text(json.dumps(document))

    return mutate


def move_first_node(output: Path) -> None:
    """Another assignment than the one that was converted, in both of its files."""
    text = output / "assignment/paper.txt"
    parts = np.loadtxt(text, np.int32)
    parts[0] = (parts[0] + 1) % 3
    text.write_text("".join(f"{part}\n" for part in parts))
    np.save(output / "assignment/paper.npy", parts)


def edit_twin(output: Path) -> None:
    np.save(output / "assignment/venue.npy", np.zeros(5, np.int32))


def shift_boundary(document: dict[str, Any]) -> None:
    document["node_map"]["paper"][0][1] += 1
    document["node_map"]["venue"][0][0] += 1


def leave_gap(document: dict[str, Any]) -> None:
    document["edge_map"]["paper:cites:paper"][1][0] -= 1


def touch(key: str) -> Change:
    def mutate(output: Path) -> None:
        with (output / key).open("ab") as stream:
            stream.write(b"\n")

    return mutate


def cut(key: str, share: float) -> Change:
    """A part of the file, as a copy that was stopped leaves it: DGL's own reader crashes on that."""

    def mutate(output: Path) -> None:
        os.truncate(output / key, int((output / key).stat().st_size * share))

    return mutate


def flip_byte(key: str) -> Change:
    """Same size, other content."""

    def mutate(output: Path) -> None:
        data = bytearray((output / key).read_bytes())
        data[-2] ^= 1
        (output / key).write_bytes(bytes(data))

    return mutate


def change_cached_row(output: Path) -> None:
    path = sorted((output / "cache/part1/node_feat").glob("*/*.npy"))[0]
    rows = np.load(path)
    rows[-1] += 1
    np.save(path, rows)


def remove(key: str) -> Change:
    return lambda output: (output / key).unlink()


CONFIG, SCHEMA = "partitions/small.json", "schema/small.json"
WRITES = "author:writes:paper"
DROPPED = "idmap/dropped/edges/paper:cites:paper.parquet"
ACTIONS = ("validation/report.json", ("actions",))
OPTIONS = ("manifest.json", ("options", "validate", "on_defect"))
PAPERS, CITES = "idmap/nodes/paper.parquet", "idmap/edges/paper:cites:paper.parquet"
CARRIED = "idmap/carry_over/nodes/paper.parquet"
MIGRATION = "assignment/migration.json"
MUTATIONS: dict[str, tuple[str, Change]] = {
    "another count in stats.json": (
        "figures",
        edit_json(f"{PART}/stats.json", lambda d: add("paper", 1)(d["halo_nodes"])),
    ),
    "features are cut short": ("node-features", cut("partitions/part0/node_feat.dgl", 0.5)),
    "features end too early": ("dgl-load", cut("partitions/part0/node_feat.dgl", 0.9)),
    "original IDs are cut short": ("original-ids", cut("partitions/part0/orig_nids.dgl", 0.5)),
    "a graph is cut short": ("fields", cut("partitions/part0/graph.dgl", 0.67)),
    "a graph is cut to its header": ("dgl-load", cut("partitions/part0/graph.dgl", 0.1)),
    "a value of a cached row": ("cached-rows", change_cached_row),
    "a count of moved nodes": (
        "migration",
        edit_json(MIGRATION, lambda d: add("moved", 1)(d["node_types"]["paper"])),
    ),
    "a number of bytes to fetch": ("migration", edit_json(MIGRATION, add("bytes_to_fetch", 4))),
    "another imbalance": (
        "migration",
        edit_json(MIGRATION, lambda d: put("paper", 1.5)(d["imbalance"]["now"])),
    ),
    "a carry-over map is missing": ("carry-over", lambda output: (output / CARRIED).unlink()),
    "two nodes carried over to each other's place": (
        "carry-over",
        edit_table(CARRIED, lambda columns: [swap(3, 8)(columns[c]) for c in ("new_id", "type_new_id")]),
    ),
    "an old new ID": ("carry-over", edit_table(CARRIED, in_column("old_new_id", put(4, 0)))),
    "a schema range is shifted": ("schema", edit_json(SCHEMA, lambda d: put(1, 99)(d["nid"]["paper"]))),
    "the schema lacks an edge type": ("schema", edit_json(SCHEMA, lambda d: d["eid"].popitem())),
    "a node has no partition": ("assignment", edit_text("assignment/paper.txt", lambda lines: lines.pop())),
    "a partition is out of range": ("assignment", edit_text("assignment/paper.txt", put(3, "3"))),
    "the binary twin differs": ("assignment", edit_twin),
    "options of the assignment are missing": (
        "assignment",
        edit_json("assignment/assignment.json", dict.clear),
    ),
    "another graph name": ("configuration", edit_json(CONFIG, put("graph_name", "other"))),
    "other type IDs": (
        "configuration",
        edit_json(CONFIG, put("ntypes", {"paper": 0, "author": 1, "venue": 2})),
    ),
    "a partition too many": ("configuration", edit_json(CONFIG, put("part-3", {}))),
    "a file of no partition": (
        "configuration",
        lambda output: shutil.copytree(output / PART, output / "partitions/part9"),
    ),
    "a number of edges": ("configuration", edit_json(CONFIG, add("num_edges", 1))),
    "a node range is shifted": ("node-ranges", edit_json(CONFIG, shift_boundary)),
    "an edge range overlaps": ("edge-ranges", edit_json(CONFIG, leave_gap)),
    "two original node IDs swapped": ("node-id-maps", edit_table(PAPERS, in_column("orig_id", swap(0, 39)))),
    "two rows of a map swapped": (
        "node-id-maps",
        edit_table(PAPERS, lambda c: [swap(0, 1)(v) for v in c.values()]),
    ),
    "an original node ID twice": (
        "node-id-maps",
        edit_table(PAPERS, in_column("orig_id", lambda v: put(0, v[1])(v))),
    ),
    "a new ID shifted": ("node-id-maps", edit_table(PAPERS, in_column("new_id", add(-1, 1)))),
    "a type-wise new ID": ("node-id-maps", edit_table(PAPERS, in_column("type_new_id", add(5, 1)))),
    "a part_id of a map": ("node-id-maps", edit_table(PAPERS, in_column("part_id", put(0, 1)))),
    "a map column is gone": ("node-id-maps", edit_table(PAPERS, lambda c: c.pop("part_id"))),
    "an edge map with owners swapped": ("edge-id-maps", edit_table(CITES, in_column("orig_id", swap(0, -1)))),
    "an edge map is gone": ("edge-id-maps", remove(CITES)),
    "a negative original edge ID": ("edge-id-maps", edit_table(CITES, in_column("orig_id", put(0, -1)))),
    "another assignment": ("node-id-maps", move_first_node),
    "nodes of a partition out of order": ("order", edit_table(PAPERS, in_column("orig_id", swap(0, 1)))),
    "edges of a partition out of order": ("order", edit_table(CITES, in_column("orig_id", swap(0, 1)))),
    "a dtype of a field": ("fields", edit_graph(with_float_ids)),
    "a field too many": ("fields", edit_graph(with_extra_field)),
    "a graph is gone": ("fields", remove(f"{PART}/graph.dgl")),
    "inner_node is 0": ("inner-nodes", edit_field("ndata", "inner_node", put(0, 0))),
    "new node IDs swapped": ("inner-nodes", edit_field("ndata", "_ID", swap(0, 1))),
    "orig_id of an inner node": ("inner-nodes", edit_field("ndata", "orig_id", add(0, 1))),
    "type of an inner node": ("inner-nodes", edit_field("ndata", "_TYPE", put(0, 1))),
    "a halo node is missing": ("halo-nodes", edit_graph(without_last_halo)),
    "a halo node too many": ("halo-nodes", edit_graph(with_idle_halo)),
    "orig_id of a halo node": ("halo-nodes", edit_field("ndata", "orig_id", add(-1, 1))),
    "type of a halo node": ("halo-nodes", edit_field("ndata", "_TYPE", put(-1, 0))),
    "owner of an inner node": ("node-owners", edit_field("ndata", "part_id", put(0, 0))),
    "owner of a halo node": ("node-owners", edit_field("ndata", "part_id", put(-1, 1))),
    "new edge IDs swapped": ("edge-ids", edit_field("edata", "_ID", swap(0, 1))),
    "orig_id of two edges swapped": ("edge-ids", edit_field("edata", "orig_id", swap(0, 1))),
    "inner_edge is 0": ("edge-ids", edit_field("edata", "inner_edge", put(0, 0))),
    "type of an edge": ("edge-ids", edit_field("edata", "_TYPE", put(0, 1))),
    "two sources swapped": ("edge-ends", edit_graph(with_swapped_sources)),
    "another destination": ("edge-ends", edit_graph(with_wrong_destination)),
    "an inner node is missing": ("every-node-once", edit_field("ndata", "inner_node", put(0, 0))),
    "an inner node too many": ("every-node-once", edit_field("ndata", "inner_node", put(-1, 1))),
    "an edge is missing": ("every-edge-once", edit_graph(without_last_edge)),
    "an edge is there twice": ("every-edge-once", edit_graph(with_last_edge_twice)),
    "a negative with another new ID": (
        "negatives",
        edit_table(f"idmap/negatives/{WRITES}.parquet", in_column("dst_type_new_id", add(0, 1))),
    ),
    "a dropped edge is there": ("dropped-edges", keep_dropped_edge),
    "a good edge is listed as dropped": ("dropped-edges", list_one_more),
    "a dropped edge is not listed": (
        "dropped-edges",
        edit_table(DROPPED, lambda c: c.update({name: values[1:] for name, values in c.items()})),
    ),
    "a dropped edge is listed twice": (
        "dropped-edges",
        edit_table(
            DROPPED,
            lambda c: c.update({name: values[[0, *range(len(values))]] for name, values in c.items()}),
        ),
    ),
    "another edge is listed as dropped": (
        "dropped-edges",
        edit_table(DROPPED, in_column("orig_id", add(0, -1))),
    ),
    "a dropped edge has another reason": (
        "dropped-edges",
        edit_table(DROPPED, in_column("check", swap_reasons)),
    ),
    "a dropped edge has no known reason": (
        "dropped-edges",
        edit_table(DROPPED, in_column("check", put(0, "parallel_edges"))),
    ),
    "reasons are missing": ("dropped-edges", edit_table(DROPPED, lambda c: c.pop("check"))),
    "a list of dropped edges is gone": ("dropped-edges", remove(DROPPED)),
    "a type without dropped edges has a list": ("dropped-edges", list_type_without_any),
    "duplicates have the action warn": ("dropped-edges", choose("warn", ACTIONS, OPTIONS)),
    "the manifest has another action": ("dropped-edges", choose("exclude", OPTIONS)),
    "the report of validation is missing": ("dropped-edges", remove("validation/report.json")),
    "original node IDs swapped": (
        "original-ids",
        edit_tensors("orig_nids.dgl", in_column("paper", swap(0, 1))),
    ),
    "original edge IDs lost": ("original-ids", edit_tensors("orig_eids.dgl", lambda t: t.popitem())),
    "a node feature's value": (
        "node-features",
        edit_tensors("node_feat.dgl", in_column("paper/feat", add((0, 0), 1))),
    ),
    "a node feature's sign of zero": (
        "node-features",
        edit_tensors("node_feat.dgl", in_column("paper/feat", put((0, 7), -0.0))),
    ),
    "rows of a node feature swapped": (
        "node-features",
        edit_tensors("node_feat.dgl", in_column("author/grid", swap(0, 1))),
    ),
    "dtype of a node feature": (
        "node-features",
        edit_tensors("node_feat.dgl", lambda t: put("paper/label", t["paper/label"].int())(t)),
    ),
    "shape of a node feature": (
        "node-features",
        edit_tensors("node_feat.dgl", lambda t: put("author/grid", t["author/grid"].flatten(1))(t)),
    ),
    "a node feature is missing": (
        "node-features",
        edit_tensors("node_feat.dgl", lambda t: t.pop("paper/train_mask")),
    ),
    "a node feature too many": (
        "node-features",
        edit_tensors("node_feat.dgl", lambda t: put("paper/x", t["paper/label"])(t)),
    ),
    "a row of an edge feature is missing": (
        "edge-features",
        edit_tensors(
            "edge_feat.dgl", lambda t: put("paper:cites:paper/year", t["paper:cites:paper/year"][:-1])(t)
        ),
    ),
    "an edge feature's value": (
        "edge-features",
        edit_tensors("edge_feat.dgl", in_column("paper:cites:paper/year", add(0, 1))),
    ),
    "the partition book is of other ranges": ("partition-book", edit_json(CONFIG, shift_boundary)),
    "DGL cannot load": ("dgl-load", remove(f"{PART}/edge_feat.dgl")),
    "DGL's debug checks fail": ("dgl-load", edit_field("ndata", "_ID", put(0, 0))),
    "an artifact has grown": ("manifest-artifacts", touch("schema/small.json")),
    "an artifact has other bytes": ("manifest-artifacts", flip_byte("schema/small.json")),
    "an artifact is gone": ("manifest-artifacts", remove("quality/report.html")),
    "an artifact is not listed": ("manifest-artifacts", lambda output: (output / "idmap/extra.txt").touch()),
    "the manifest is gone": ("manifest-artifacts", remove("manifest.json")),
    "the manifest is of another input": (
        "manifest-input",
        edit_json("manifest.json", lambda d: put("sha256", "0" * 64)(d["input"]["files"][0])),
    ),
    "the manifest lacks an input file": (
        "manifest-input",
        edit_json("manifest.json", lambda d: d["input"]["files"].pop()),
    ),
}
