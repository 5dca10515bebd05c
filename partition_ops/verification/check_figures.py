"""Checks of documents with figures: counts of partitions, checksums of assignments, the quality report."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from io import BytesIO
from typing import Any

import numpy as np

from partition_ops import __version__
from partition_ops.artifacts import layout
from partition_ops.artifacts.assignment import DGL_VERSION
from partition_ops.artifacts.book import read_book
from partition_ops.artifacts.documents import read_document
from partition_ops.artifacts.records import read_record
from partition_ops.chunked.metadata import GraphMetadata
from partition_ops.errors import InvalidInputError
from partition_ops.formats.findings import Findings
from partition_ops.formats.format import Format
from partition_ops.options.declare import own_options
from partition_ops.stages.convert.context import Conversion
from partition_ops.stages.convert.options import ConvertConfig
from partition_ops.stages.convert.whole_graph import whole_graph
from partition_ops.stages.partition.engine import find_engine
from partition_ops.stages.partition.options import PartitionConfig
from partition_ops.stages.quality.training import training_report
from partition_ops.storage import Store
from partition_ops.storage.store import sha256_of
from partition_ops.system.json_documents import check_document
from partition_ops.traffic.options import SamplingOptions
from partition_ops.verification.artifact_readers import read_whole_manifest
from partition_ops.verification.expected_graph import ExpectedGraph

CHECK = "figures"
DECIMALS = 6
DOCUMENTS = (".json", ".yaml", ".txt")  # suffixes
OPTIONAL = {"contents", "nodes_by_degree"}  # in stats.json of a partition
SUMMARISED = ("num_parts", "num_nodes", "num_edges", "replication_factor")
SLOWEST = {"slowest_rows": "remote_rows_per_batch", "slowest_ratio": "ratio"}
MORE_OPTIONS = ("num_nodes", "still_there", "previous")  # of the record, which is not only of options
Figures = dict[str, Any]
Entries = Sequence[Mapping[str, Any]]


def check_figures(
    findings: Findings,
    source: Store,
    output: Store,
    graph: ExpectedGraph,
    formats: Sequence[Format],
    *,
    is_text: bool,
) -> None:
    """Check the documents whose figures follow from the input and the assignment.

    The figures of training are computed again by the code that the stage ``quality`` has.

    Args:
        findings: Takes the failures.
        source: Root of the input graph.
        output: Root of the output.
        graph: The expected graph.
        formats: The output formats.
        is_text: Whether ``convert-partition`` wrote the output, which has no figures of training.

    Peak memory: 40 bytes an edge of the largest type, and 8 bytes a node; or that of `training_report`.
    """
    parts = [_expected_stats(graph, part) for part in range(graph.num_parts)]
    stored: list[Figures] = []
    manifest: Figures = {}
    with findings.check(CHECK):
        manifest = read_whole_manifest(output)
    if not manifest:
        return
    for part, expected in enumerate(parts):
        with findings.check(CHECK):
            stored.append(_check_stats(findings, output, part, expected))
    with findings.check(CHECK):
        _check_assignment(findings, output, graph, manifest)
    if not is_text and manifest["versions"]["partition_ops"] == __version__:
        with findings.check("configuration"):
            _check_documents(findings, source, output, graph, formats)
    with findings.check(CHECK):
        _check_validation(findings, output, graph.metadata, manifest)
    with findings.check(CHECK):
        report = read_document(output, layout.QUALITY_REPORT, "quality_report")
        if "degrees" in report:
            where = f"degrees of {layout.QUALITY_REPORT}"
            findings.same(CHECK, where, report["degrees"], _expected_degrees(stored))
        sizes = _sizes(manifest["artifacts"], formats, graph.num_parts)
        _check_report(findings, report, _expected_report(graph.metadata, parts), sizes)
        _check_copies(findings, output, report)
        _check_whole_nodes(findings, output, report)
        _check_history(findings, output, report)
        if not is_text and "training" in report:
            _check_training(findings, source, output, graph, report["training"], manifest)


def _check_stats(findings: Findings, output: Store, part: int, expected: Figures) -> Figures:
    """Check ``stats.json`` of a partition, and return it."""
    key = layout.partition_stats(part)
    found = read_document(output, key, "partition_stats")
    for name, value in expected.items():
        findings.same(CHECK, f"{name} of {key}", found.get(name), value)
    unknown = sorted(found.keys() - expected.keys() - OPTIONAL)
    if unknown:
        findings.fail(CHECK, f"{key} has entries that nothing reads: {', '.join(map(repr, unknown))}")
    for kind, of_nodes in (("inner", "inner_nodes"), ("halo", "halo_nodes")):
        if "nodes_by_degree" in found:
            number, total = sum(found["nodes_by_degree"][kind]), sum(expected[of_nodes].values())
            findings.same(CHECK, f"the sum of nodes_by_degree of {key}", number, total)
    return found


def check_records(findings: Findings, output: Store, listed: Entries) -> None:
    """Check that records and manifest list the same content of artifacts, as far as there are records.

    Broken and missing records are no failure: the next run does their tasks again.
    """
    entries = {entry["key"]: (entry["size"], entry["sha256"]) for entry in listed}
    for key in sorted(
        entry.key for entry in output.list(f"{layout.RECORDS}/") if entry.key.endswith(".json")
    ):
        with suppress(InvalidInputError, AttributeError, KeyError, TypeError):
            for one in output.read_json(key)["artifacts"]:
                if entries.get(one["key"], (one["size"], one["sha256"])) != (one["size"], one["sha256"]):
                    findings.fail("manifest-artifacts", f"{one['key']} is not listed as in {key}")


def _expected_stats(graph: ExpectedGraph, part: int) -> Figures:
    """Return the counts of a partition, as ``stats.json`` has them."""
    nodes, edges = graph.metadata.node_types, [str(name) for name in graph.metadata.edge_types]
    begin, end = graph.nodes.part(part)
    reached = np.flatnonzero(graph.hops(part) > 0)
    cut = []
    for type_id in range(len(edges)):
        src = graph.new_ends(type_id, graph.edges_of(part, type_id))[0]
        cut.append(int(np.count_nonzero((src < begin) | (src >= end))))
    halo = np.bincount(graph.describe_nodes(reached)[1], minlength=len(nodes))
    return {
        "version": 1,
        "part": part,
        "inner_nodes": dict(zip(nodes, graph.nodes.counts[part].tolist(), strict=True)),
        "halo_nodes": dict(zip(nodes, halo.tolist(), strict=True)),
        "edges": dict(zip(edges, graph.edge_ranges.counts[part].tolist(), strict=True)),
        "cut_edges": dict(zip(edges, cut, strict=True)),
    }


def _check_assignment(findings: Findings, output: Store, graph: ExpectedGraph, manifest: Figures) -> None:
    """Check the documents of the assignment: the engine, its options, and the checksums of the text."""
    folder = layout.ASSIGNMENT
    meta = output.read_json(f"{folder}/{layout.ASSIGNMENT_META}")
    engine = meta["algo_name"]
    if output.exists(layout.BOOK):
        findings.same(CHECK, "part_method of the book", output.read_json(layout.BOOK)["part_method"], engine)
    key = f"{folder}/{layout.ASSIGNMENT_SIDECAR}"
    if not output.exists(key):
        return
    sidecar = output.read_json(key)
    check_document(sidecar, "assignment", where=output.uri_of(key))
    findings.same(CHECK, f"num_parts of {key}", sidecar["num_parts"], graph.num_parts)
    if sidecar.get("edge_cut"):
        cut = sidecar["edge_cut"]
        findings.same(CHECK, f"edge_cut of {key}", cut["fraction"], _ratio(cut["pairs"], cut["of"], 0.0))
    texts = {name: f"{folder}/{layout.assignment_text(name)}" for name in graph.metadata.node_types}
    digests = {name: sha256_of(output.local_copy(text)) for name, text in texts.items()}
    findings.same(CHECK, f"text_sha256 of {key}", sidecar["text_sha256"], digests)
    made_by, options = sidecar.get("made_by") or {}, manifest["options"].get("partition") or {}
    if options and "digest" not in options:  # it was not imported
        more = {
            *MORE_OPTIONS,
            *(one.field for one in own_options(PartitionConfig) if one.only_with == "previous"),
        }
        expected = {name: value for name, value in options.items() if name not in more}
        if "sampling" in made_by:
            expected.setdefault("sampling", made_by["sampling"])  # recorded if the objective uses it
        findings.same(CHECK, f"made_by of {key}", made_by, expected)
        wanted = {"version": DGL_VERSION, "num_parts": graph.num_parts}
        wanted["algo_name"] = find_engine(str(options["engine"])).dgl_name
        findings.same(CHECK, f"{folder}/{layout.ASSIGNMENT_META}", meta, wanted)


def _check_documents(
    findings: Findings, source: Store, output: Store, graph: ExpectedGraph, formats: Sequence[Format]
) -> None:
    """Compare the documents of the formats with what the formats write."""
    book = read_book(output)
    config = ConvertConfig(
        graph_name=graph.metadata.graph_name,
        formats=tuple(form.name for form in formats),  # those of a damaged book may be no formats
        num_hops=graph.num_hops,
    )
    whole = whole_graph(Conversion(config, source, output), book)
    for form in formats:
        documents = dict(form.config_files(book))
        for path, file in form.whole_files(whole).items():
            if not file.columns and path.endswith(DOCUMENTS):
                stream = BytesIO()
                file.write(stream)
                documents[path] = stream.getvalue()
        for path, data in documents.items():
            key = form.key(path)
            if output.read_bytes(key) != data:
                findings.fail("configuration", f"{key} is not what this version writes")


def _check_validation(findings: Findings, output: Store, metadata: GraphMetadata, manifest: Figures) -> None:
    """Check the counts of ``validation/report.json``, and the files that it lists."""
    if not output.exists(layout.VALIDATION_REPORT):
        return
    report = output.read_json(layout.VALIDATION_REPORT)
    where = f"of {layout.VALIDATION_REPORT}"
    edges = [str(name) for name in metadata.edge_types]
    for name, value in (
        ("graph_name", metadata.graph_name),
        ("passed", True),
        ("num_nodes", dict(zip(metadata.node_types, metadata.num_nodes, strict=True))),
        ("num_edges", dict(zip(edges, metadata.num_edges, strict=True))),
        ("files", manifest["input"]["files"]),
    ):
        findings.same(CHECK, f"{name} {where}", report[name], value)


def _expected_report(metadata: GraphMetadata, parts: Sequence[Figures]) -> Figures:
    """Return the figures of the quality report that follow from the counts of the partitions."""

    def counts(kind: str, name: str) -> list[int]:
        return [part[kind][name] for part in parts]

    def totals(kind: str) -> list[int]:
        return [sum(part[kind].values()) for part in parts]

    edges = [str(name) for name in metadata.edge_types]
    inner, halo, all_edges, cut = map(totals, ("inner_nodes", "halo_nodes", "edges", "cut_edges"))
    by_edges = {name: (counts("edges", name), sum(counts("cut_edges", name))) for name in edges}
    return {
        "version": 1,
        "graph_name": metadata.graph_name,
        "num_parts": len(parts),
        "num_nodes": sum(inner),
        "num_edges": sum(all_edges),
        "edge_cut": {"edges": sum(cut), "fraction": _ratio(sum(cut), sum(all_edges), 0.0)},
        "replication_factor": _ratio(sum(inner) + sum(halo), sum(inner), 1.0),
        "communication_volume": sum(halo),
        "node_types": {
            name: {
                "per_part": counts("inner_nodes", name),
                "halo_per_part": counts("halo_nodes", name),
                "imbalance": _imbalance(counts("inner_nodes", name)),
            }
            for name in metadata.node_types
        },
        "edge_types": {
            name: {
                "per_part": of_type,
                "cut_edges": cut_edges,
                "cut_fraction": _ratio(cut_edges, sum(of_type), 0.0),
                "imbalance": _imbalance(of_type),
            }
            for name, (of_type, cut_edges) in by_edges.items()
        },
        "partitions": [
            {"part": part, "inner_nodes": i, "halo_nodes": h, "edges": e, "cut_edges": c}
            for part, (i, h, e, c) in enumerate(zip(inner, halo, all_edges, cut, strict=True))
        ],
    }


def _expected_degrees(stats: Sequence[Figures]) -> list[Figures]:
    """Return the nodes and their replication by the number of bits of their degrees."""
    inner, halo = (
        np.sum([one["nodes_by_degree"][kind] for one in stats], axis=0).tolist() for kind in ("inner", "halo")
    )
    return [
        {
            "least": 2 ** (bits - 1) if bits else 0,
            "most": 2**bits - 1,
            "nodes": nodes,
            "replication_factor": _ratio(nodes + halo[bits], nodes, 1.0),
        }
        for bits, nodes in enumerate(inner)
        if nodes
    ]


def _check_report(findings: Findings, report: Figures, expected: Figures, sizes: Sequence[int]) -> None:
    for name, value in expected.items():
        found = report.get(name)
        if name == "partitions":
            found = [{key: one.get(key) for key in value[0]} for one in report[name]]
        findings.same(CHECK, f"{name} of {layout.QUALITY_REPORT}", found, value)
    stored = [one["bytes"] for one in report["partitions"]]
    findings.same(CHECK, f"bytes of the partitions in {layout.QUALITY_REPORT}", stored, list(sizes))
    if "balance" not in report:  # of an earlier version
        return
    by_type = {name: one["per_part"] for name, one in expected["node_types"].items()}
    for name, of_type in by_type.items():
        found = report["balance"]["node_types"][name]
        extremes = {key: found.get(key) for key in ("lightest", "heaviest")}
        findings.same(CHECK, f"balance of {name!r}", extremes, _extremes(of_type))
    nodes = [one["inner_nodes"] for one in expected["partitions"]]
    extremes = {key: report["balance"].get(key) for key in ("lightest", "heaviest")}
    findings.same(CHECK, "balance of all nodes", extremes, _extremes(nodes))
    edges = [one["edges"] for one in expected["partitions"]]
    for kind, of_parts in (("nodes", nodes), ("edges", edges), ("bytes", stored)):
        fullest = report["balance"]["fullest"][kind]
        part = int(np.argmax(of_parts))
        wanted = {"part": part, "ratio": _extremes(of_parts)["heaviest"]}
        findings.same(CHECK, f"the partition with the most {kind}", fullest, wanted)


def _check_copies(findings: Findings, output: Store, report: Figures) -> None:
    """Compare what the report has taken over from other documents with them."""
    for name, key in (
        ("migration", layout.MIGRATION),
        ("probe", layout.QUALITY_PROBE),
    ):
        if name in report:
            document = output.read_json(key)
            expected = {one: document.get(one) for one in report[name]}
            findings.same(CHECK, f"{name} of {layout.QUALITY_REPORT}", report[name], expected)


def _check_whole_nodes(findings: Findings, output: Store, report: Figures) -> None:
    """Compare the shares of types with few nodes with the record of ``partition``, if there is one."""
    with suppress(InvalidInputError):
        recorded = read_record(output, "partition")["counters"].get("whole_nodes", {})
        types = report.get("balance", {}).get("node_types", {})
        found = {name: one["whole_nodes"] for name, one in types.items() if "whole_nodes" in one}
        expected = {name: share for name, share in recorded.items() if name in types}
        findings.same(CHECK, f"whole_nodes of {layout.QUALITY_REPORT}", found, expected)


def _check_training(
    findings: Findings,
    source: Store,
    output: Store,
    graph: ExpectedGraph,
    found: Figures,
    manifest: Figures,
) -> None:
    """Compute the figures of training again, unless another version wrote them."""
    options = manifest["options"].get("quality")
    if options is None or manifest["versions"]["partition_ops"] != __version__:
        return
    sampling = SamplingOptions(
        train_nodes=options["train_nodes"],
        fanouts=tuple(options["fanouts"]),
        batch_size=options["batch_size"],
    )
    run = source, graph.metadata, output, graph.num_hops
    expected = training_report(sampling, *run, anew=True)
    for name in sorted({*expected, *found}):
        if not _close(found.get(name), expected.get(name)):
            where = f"training: {name} of {layout.QUALITY_REPORT}"
            findings.same(CHECK, where, found.get(name), expected.get(name))


def _close(found: Any, expected: Any) -> bool:
    """Return whether two JSON values are equal; numbers up to the rounding of another processor."""
    if isinstance(expected, dict) and isinstance(found, dict):
        return found.keys() == expected.keys() and all(_close(found[k], expected[k]) for k in expected)
    if isinstance(expected, list | tuple) and isinstance(found, list | tuple):
        return len(found) == len(expected) and all(map(_close, found, expected))
    if isinstance(expected, float) and isinstance(found, int | float) and not isinstance(found, bool):
        return math.isclose(found, expected, rel_tol=1e-6, abs_tol=2e-6)
    return bool(found == expected)


def _check_history(findings: Findings, output: Store, report: Figures) -> None:
    """Compare the last entry of ``quality/history.json`` with the report."""
    if not output.exists(layout.QUALITY_HISTORY):
        return
    document = read_document(output, layout.QUALITY_HISTORY, "history")
    where = f"of {layout.QUALITY_HISTORY}"
    findings.same(CHECK, f"graph_name {where}", document["graph_name"], report["graph_name"])
    entry = document["entries"][-1]
    slowest = report.get("training", {}).get("slowest") or {}
    expected = {name: report[name] for name in SUMMARISED} | {
        "bytes": sum(one["bytes"] for one in report["partitions"]),
        "edge_cut": report["edge_cut"]["fraction"],
        "worst_imbalance": max(one["imbalance"] for one in report["node_types"].values()),
        **{name: slowest.get(key) for name, key in SLOWEST.items()},
    }
    for name, value in expected.items():
        findings.same(CHECK, f"{name} {where}", entry.get(name), value)


def _sizes(listed: Entries, formats: Sequence[Format], num_parts: int) -> list[int]:
    """Return the bytes of each partition in all output formats."""
    found = []
    for part in range(num_parts):
        folders = tuple(f"{form.part_folder(part)}/" for form in formats if form.of_partitions)
        own = layout.partition_stats(part)
        found.append(
            sum(one["size"] for one in listed if one["key"].startswith(folders) and one["key"] != own)
        )
    return found


def _ratio(part: int, whole: int, of_nothing: float) -> float:
    return round(part / whole, DECIMALS) if whole else of_nothing


def _imbalance(counts: Sequence[int]) -> float:
    return _ratio(max(counts) * len(counts), sum(counts), 1.0)


def _extremes(counts: Sequence[int]) -> dict[str, float]:
    """Return the least and the greatest of some counts over their mean."""
    total = sum(counts)
    shares = [count * len(counts) / total if total else 1.0 for count in counts]
    return {"lightest": round(min(shares), DECIMALS), "heaviest": round(max(shares), DECIMALS)}
