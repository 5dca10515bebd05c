"""Measure `ingest` on 20 million edges between 2 million nodes with 32 features, with all checks.

    python -m benchmarks.tables FOLDER [--keys text|int64] [--plain] [--scale 1] [--memory 4G] [--rounds 3]
        [--other WORKTREE]

FOLDER gets the tables: `users.parquet` with keys, 32 columns of numbers, a class and a split by shares,
`items.parquet`, and `events.parquet` with a time of each event (``--plain``: without). With ``--other``,
the folder of another version of the project, both versions ingest in turn, and their graphs must be equal;
Python runs with -P, because it would import the package of this folder for both otherwise.
The figures are medians: seconds, seconds of processor time, and GB with and without mapped files.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.processes import Cost, measure, median

USERS, ITEMS, EVENTS, FEATURES = 1_600_000, 400_000, 20_000_000, 32
ROW_GROUP = 1 << 17
GRAPH = """graph_name: events
nodes:
  user:
    table: users.parquet
    key: user_id
    features: {{x: {{columns: "f*", transform: standardise}}}}
    label: plan
    split: {{shares: [0.8, 0.1, 0.1]}}
  item: {{table: items.parquet, key: item_id}}
edges:
  user:saw:item: {{table: events.parquet, src: user_id, dst: item_id{time}}}
"""


def write_tables(folder: Path, keys: str, scale: float, plain: bool) -> None:
    """Write the tables and `graph.yaml`; rows are in no order, and few items have most of the events."""
    rng = np.random.default_rng(0)
    users, items, events = (int(scale * number) for number in (USERS, ITEMS, EVENTS))

    def keys_of(ids: np.ndarray, letter: str) -> pa.Array:
        numbers = pa.array(ids * 7919 + 10**9)
        if keys == "int64":
            return numbers
        return pc.binary_join_element_wise(letter, numbers.cast(pa.string()), "")

    columns = {f"f{i}": rng.standard_normal(users, np.float32) for i in range(FEATURES)}
    order = rng.permutation(users)
    table = {"user_id": keys_of(order, "u"), **columns, "plan": rng.integers(0, 5, users)}
    pq.write_table(pa.table(table), folder / "users.parquet", row_group_size=ROW_GROUP)
    order = rng.permutation(items)
    pq.write_table(pa.table({"item_id": keys_of(order, "i")}), folder / "items.parquet")
    pair = rng.integers(0, users, events), (items * rng.random(events) ** 2).astype(np.int64)
    seen = {"user_id": keys_of(pair[0], "u"), "item_id": keys_of(pair[1], "i")}
    seen |= {} if plain else {"at": pa.array(1_700_000_000 + rng.integers(0, 10**7, events))}
    pq.write_table(pa.table(seen), folder / "events.parquet", row_group_size=1 << 20)
    (folder / "graph.yaml").write_text(GRAPH.format(time="" if plain else ", time: at"))


def digest(folder: Path) -> str:
    """Return a hash of all files of a graph."""
    found = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        name = path.relative_to(folder)
        if name.parts[0] not in {"records", "partition-ops.json"}:  # times
            found.update(f"{name} ".encode() + hashlib.sha256(path.read_bytes()).digest())
    return found.hexdigest()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--keys", choices=["text", "int64"], default="text")
    parser.add_argument("--plain", action="store_true", help="edges without a time")
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--memory", default="4G")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--other", type=Path)
    arguments = parser.parse_args()
    folder = arguments.folder
    if not (folder / "graph.yaml").exists():
        folder.mkdir(parents=True, exist_ok=True)
        write_tables(folder, arguments.keys, arguments.scale, arguments.plain)
    versions = {"this version": Path.cwd()} | ({"other": arguments.other} if arguments.other else {})
    costs: dict[str, list[Cost]] = {name: [] for name in versions}
    digests = set()
    for _ in range(arguments.rounds):
        for name, version in versions.items():
            with tempfile.TemporaryDirectory(dir=folder) as output:
                command = [
                    sys.executable,
                    "-P",
                    "-m",
                    "partition_ops.cli",
                    "ingest",
                    str(folder / "graph.yaml"),
                ]
                command += [f"{output}/graph", "--memory", arguments.memory]
                costs[name].append(measure(command, {"PYTHONPATH": str(version), "TMPDIR": output}))
                digests.add(digest(Path(output) / "graph"))
    for name, cost in ((name, median(some)) for name, some in costs.items()):
        print(
            f"{name}: {cost.wall:.1f} s, {cost.cpu:.1f} s of processor time,"
            f" {cost.peak / 1e9:.2f} GB, {cost.anonymous / 1e9:.2f} GB without mapped files"
        )
    print(f"{len(digests)} graph(s): {', '.join(sorted(digest[:12] for digest in digests))}")
    if len(digests) > 1:
        sys.exit("The graphs are not equal.")


if __name__ == "__main__":
    main()
