"""Small tables for the terminal."""

from __future__ import annotations

from typing import Any

MOST_PARTS = 8


def table(rows: list[list[str]]) -> list[str]:
    """Lines of a table whose first column is text and whose others are figures."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def quality_lines(report: dict[str, Any]) -> list[str]:
    """Partitions by node types, edge cut and replication factor of ``quality/report.json``."""
    shown = report["partitions"][:MOST_PARTS]
    head = ["partition", *report["node_types"], "halo", "edges", "cut", "MiB"]
    rows = [head]
    for index, part in enumerate(shown):
        counts = [entry["per_part"][index] for entry in report["node_types"].values()]
        figures = [*counts, part["halo_nodes"], part["edges"], part["cut_edges"]]
        rows.append(
            [str(part["part"]), *(f"{figure:,}" for figure in figures), f"{part['bytes'] / 2**20:.1f}"]
        )
    imbalances = [f"{entry['imbalance']:.3f}" for entry in report["node_types"].values()]
    rows.append(["imbalance", *imbalances, "", "", "", ""])
    lines = table(rows)
    if len(report["partitions"]) > len(shown):
        lines.insert(-1, f"… and {len(report['partitions']) - len(shown)} more partitions")
    cut = report["edge_cut"]
    return [
        *lines,
        "",
        f"edge cut            {cut['fraction']:.2%} ({cut['edges']:,} of {report['num_edges']:,} edges)",
        f"replication factor  {report['replication_factor']:.3f}",
    ]


def validation_lines(report: dict[str, Any]) -> list[str]:
    """A readable summary of ``validation/report.json``."""
    nodes = [["node type", "nodes", "isolated", "mean degree", "largest in", "largest out"]]
    for row in report["metrics"]["node_types"]:
        figures = [row["nodes"], row["isolated_nodes"], row["mean_degree"], row["max_in_degree"]]
        nodes.append([row["name"], *(f"{figure:,}" for figure in (*figures, row["max_out_degree"]))])
    edges = [["edge type", "edges", "files", "duplicates", "self-loops"]]
    for row in report["metrics"]["edge_types"]:
        figures = [row["edges"], row["files"], row["duplicate_edges"], row["self_loop_edges"]]
        edges.append([row["name"], *(f"{figure:,}" for figure in figures)])
    whole = report["metrics"]["graph"][0]
    connected = f"{whole['connected_share']:.2%} of the nodes are in the largest of"
    lines = [*table(nodes), "", *table(edges), "", f"{connected} {whole['components']:,} components", ""]
    for defect in report["defects"]:
        noted = defect["severity"] == "information" and defect["action"] == "warn"
        label = "note" if noted else defect["action"]
        lines.append(f"{label:<8}{defect['count']:,} {defect['check']} of {defect['name']!r}")
        lines += [f"        {example['sentence']}" for example in defect["examples"]]
    return lines
