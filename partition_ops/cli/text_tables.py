"""Tables and lines for the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from partition_ops.artifacts.run_figures import relative_shares

if TYPE_CHECKING:
    from partition_ops.artifacts.tasks import StageResult

MOST_PARTS = 8


def table(rows: list[list[str]]) -> list[str]:
    """Return the lines of a table whose first column is text and whose other columns are figures."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def quality_lines(report: dict[str, Any]) -> list[str]:
    """Return partitions by node type, edge cut and replication factor of ``quality/report.json``."""
    shown = report["partitions"][:MOST_PARTS]
    head = ["partition", *report["node_types"], "halo", "edges", "cut", "MiB"]
    rows = [head]
    for index, part in enumerate(shown):
        counts = [entry["per_part"][index] for entry in report["node_types"].values()]
        figures = [*counts, part["halo_nodes"], part["edges"], part["cut_edges"]]
        rows.append(
            [str(part["part"]), *(f"{figure:,}" for figure in figures), f"{part['bytes'] / 2**20:.1f}"]
        )
    types = report["node_types"].values()
    rows.append(
        ["lightest", *(f"{min(relative_shares(entry['per_part'])):.3f}" for entry in types), "", "", "", ""]
    )
    rows.append(["imbalance", *(f"{entry['imbalance']:.3f}" for entry in types), "", "", "", ""])
    lines = table(rows)
    if len(report["partitions"]) > len(shown):
        lines.insert(-2, f"… and {len(report['partitions']) - len(shown)} more partitions")
    cut = report["edge_cut"]
    return [
        *lines,
        "",
        f"edge cut            {cut['fraction']:.2%} ({cut['edges']:,} of {report['num_edges']:,} edges)",
        f"replication factor  {report['replication_factor']:.3f}",
        *_fullest_lines(report.get("balance", {}).get("fullest")),
        *_training_lines(report.get("training")),
        *(f"note                {note}" for note in report.get("notes", ())),
        *_whole_node_lines(report.get("balance", {}).get("node_types", {})),
        *_migration_lines(report.get("migration")),
        *_probe_lines(report.get("probe")),
    ]


def _whole_node_lines(balance: dict[str, Any]) -> list[str]:
    """Return the types whose limit is above the tolerance, because a node cannot be split."""
    return [
        f"note                a partition may hold {entry['whole_nodes']:.3f} times its share of {name!r}:"
        " a node cannot be split"
        for name, entry in balance.items()
        if "whole_nodes" in entry
    ]


def _fullest_lines(fullest: dict[str, Any] | None) -> list[str]:
    """Return the fullest partition in nodes, edges and bytes, over the mean."""
    if fullest is None:  # as in reports of version 0.2.0
        return []
    shown = ", ".join(f"{kind} {one['ratio']:.3f}" for kind, one in fullest.items())
    return [f"fullest partition   {shown} times the mean"]


def _training_lines(training: dict[str, Any] | None) -> list[str]:
    """Return what the slowest trainer is expected to fetch from other partitions."""
    if training is None:
        return []
    if "left_out" in training:
        return [f"remote rows         unknown: {training['left_out']}"]
    slowest = training["slowest"]
    if slowest is None:
        return ["remote rows         unknown: there are no train nodes"]
    fetched = f"{slowest['remote_rows_per_batch']:,.0f} a batch"
    size = f"{slowest['remote_bytes_per_batch'] / 2**20:.2f} MiB"
    return [f"remote rows         {fetched} ({size}), slowest trainer; {slowest['ratio']:.3f} times the mean"]


def _probe_lines(probe: dict[str, Any] | None) -> list[str]:
    """Return what trainers fetch from other partitions, if the run was probed."""
    if probe is None:
        return []
    total = probe["total"]
    fetched = f"{total['remote_bytes_per_batch'] / 2**20:.2f} MiB a batch"
    return [f"remote neighbours   {total['remote_neighbour_share']:.2%}, {fetched}"]


def _migration_lines(migration: dict[str, Any] | None) -> list[str]:
    """Return what moved since the previous run, if there was one."""
    if migration is None:
        return []
    types = migration["node_types"].values()
    old, moved, new = (sum(one[kind] for one in types) for kind in ("old", "moved", "new"))
    reason = f", because {migration['reason']}" if migration["mode"] == "full" else ""
    return [
        f"since the run before {migration['mode']}{reason}",
        f"nodes               {moved:,} of {old:,} old ones moved, {new:,} new",
        f"features to fetch   {migration['bytes_to_fetch'] / 2**20:,.1f} MiB",
    ]


def validation_lines(report: dict[str, Any]) -> list[str]:
    """Return a summary of ``validation/report.json``."""
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
    return lines + defect_lines(report)


def defect_lines(report: dict[str, Any]) -> list[str]:
    """Return the findings of validation, with examples."""
    lines = []
    for defect in report["defects"]:
        noted = defect["severity"] == "information" and defect["action"] == "warn"
        label = "note" if noted else defect["action"]
        lines.append(f"{label:<8}{defect['count']:,} {defect['check']} of {defect['name']!r}")
        lines += [f"        {example['sentence']}" for example in defect["examples"]]
    return lines


def estimate_lines(estimate: dict[str, Any]) -> list[str]:
    """Return the needs of each stage, the resources of this machine, and what is too small."""
    rows = [["stage", "memory", "of it mapped", "output", "temporary", "seconds"]]
    for stage in (*estimate["stages"], estimate["whole"]):
        sizes = stage["memory"], stage["mapped"], stage["output"], stage["temporary"] + stage["cache"]
        held_back = stage["scratch"]
        rows.append([stage["stage"], *map(_size, sizes), f"{stage['seconds']:,.0f}"])
        if held_back:
            rows[-1][3] += f" + {_size(held_back)}"
    room = estimate["room"]
    output = "" if room["output"] is None else f"{_size(room['output'])} for the output, "
    lines = [
        f"{estimate['graph_name']}: {estimate['nodes']:,} nodes, {estimate['edges']:,} edges;"
        f" {estimate['num_parts']} partitions, engine {estimate['engine']}",
        "",
        *table(rows),
        "",
        "Output: the size after '+' is scratch, which publishing removes.",
        "Temporary: files below TMPDIR, including copies from and to S3.",
        f"There are {_size(room['memory'])} of memory ({_size(room['available'])} free) and"
        f" {room['cores']} cores.",
        f"Free disk: {output}{_size(room['temporary'])} for temporary files (TMPDIR).",
    ]
    for short in estimate["shortages"]:
        lines += ["", f"Too little {short['what']}: {short['stage']} needs {_size(short['needed'])}."]
        lines += [f"  {remedy}" for remedy in short["remedies"]]
    lines += ["", *(f"note: {warning}" for warning in estimate["warnings"])] if estimate["warnings"] else []
    return [*lines, "", "It should fit." if estimate["fits"] else "It does not fit: 'run' would reject it."]


def workers_lines(estimate: dict[str, Any]) -> list[str]:
    """Return the memory of each task on a worker, and how many workers or how much memory would do."""
    rows = [["task", "number", "memory", "of it mapped", "fits"]]
    for stage in estimate["stages"]:
        for task in stage["tasks"]:
            same = task["name"].split(" ")[0] == stage["stage"]
            name = task["name"] if same else f"{stage['stage']} {task['name']}"
            fits = "yes" if task["held"] <= estimate["memory"] else "no"
            rows.append([name, f"{task['number']:,}", _size(task["memory"]), _size(task["mapped"]), fits])
    workers, memory = f"{estimate['workers']:,} workers", _size(estimate["memory"])
    spread = [stage["spread_by"] for stage in estimate["stages"] if stage["spread_by"]]
    whole = [stage["stage"] for stage in estimate["stages"] if not stage["spread"]]
    lines = [
        f"{estimate['graph_name']}: {estimate['nodes']:,} nodes, {estimate['edges']:,} edges;"
        f" {estimate['num_parts']} partitions, engine {estimate['engine']};"
        f" {workers} of {memory} and {estimate['cores']} cores each",
        "",
        *table(rows),
        "",
        "Each worker has one task at a time. The pages of mapped files need no memory to fit.",
        *(["Options: " + " ".join(spread)] if spread else []),
        f"One task each, on one worker: {', '.join(whole)}.",
        *(f"note: {warning}" for warning in estimate["warnings"]),
        *(["", *estimate["remedies"]] if estimate["remedies"] else []),
        "",
        "It should fit." if estimate["fits"] else f"It does not fit on {workers} of {memory}.",
        f"Least memory for {workers}: {_size(estimate['least_memory'])} each.",
    ]
    fewest, too_large = estimate["fewest_workers"], ", ".join(estimate["too_large"])
    enough = f"none is enough for {too_large}" if fewest is None else f"{fewest:,}"
    return [*lines, f"Least number of workers of {memory}: {enough}."]


def _size(count: int) -> str:
    return f"{count / 2**30:,.1f} GiB" if count >= 2**30 else f"{count / 2**20:,.0f} MiB"


def result_line(result: StageResult) -> str:
    """Return a line about a finished task."""
    state = "as before" if result.skipped else f"{result.seconds:8.1f} s"
    return f"{result.task:<16} {state:>10}  {counters_line(result.counters)}"


def counters_line(counters: dict[str, Any]) -> str:
    """Return the figures of a task in one line; lists and objects are only printed by --json."""
    shown = []
    for name, value in counters.items():
        label = name.replace("_", " ")
        if isinstance(value, bool | str):
            shown.append(f"{label} {value}")
        elif isinstance(value, int):
            shown.append(f"{label} {value:,}")
        elif isinstance(value, float):
            shown.append(f"{label} {value:.4g}")
    return ", ".join(shown)
