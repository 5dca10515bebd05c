"""Tables in the S3 server that lose rows between two looks of the real scheduler, for each `on_removed`."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from graph_partitioning.runs import run_root

import partition_ops
from local_stack.airflow import BUCKET
from partition_ops.artifacts import layout
from partition_ops.storage import Store, open_store
from tests.e2e.airflow_site import CONNECTION, Run, Site
from tests.tables import edges, keys
from tests.unit.stages.ingest.test_removed_nodes import write_web
from tests.uploads import upload_folder

pytestmark = [pytest.mark.e2e, pytest.mark.long]
ACTIONS = ("keep", "isolate", "renumber")
TABLES = f"s3://{BUCKET}/tables-that-lose-rows"
OUTPUT = f"s3://{BUCKET}/output-of-tables"
LIST = f"s3://{BUCKET}/lists/tables.yaml"
PAGES = [f"p{number:03}" for number in range(200)]
GONE, NEW = {*PAGES[::20]}, [f"q{number}" for number in range(5)]
SETTINGS = f"""\
version: 1
defaults:
  storage_conn_id: {CONNECTION}
  output_uri: {OUTPUT}
  num_parts: 2
  on_duplicate_edges: warn
  drift: 100
  keep: 3
graphs:
"""


@dataclass(frozen=True)
class Outputs:
    """The runs of one graph, as copies on the local disk.

    Attributes:
        before: The run before it.
        after: The run that continues it.
        reason: Why the second look began a run.
        root: Where this run is.
    """

    before: Path
    after: Path
    reason: str
    root: str

    def pages(self, run: Path) -> dict[str, tuple[int, int, int]]:
        """Return ID, new ID and partition of each page by its key."""
        found = pq.read_table(run / "idmap/nodes/page.parquet").to_pydict()
        names = keys(run / "ingest", "page")
        rows = zip(found["orig_id"], found["type_new_id"], found["part_id"], strict=True)
        return {names[row[0]]: row for row in rows}


def write_tables(folder: Path, action: str, pages: list[str], links: list[str]) -> None:
    """Write the tables of one graph; pages that are gone are still named by links."""
    write_web(folder, random.Random(action), pages, PAGES, action)
    (folder / "links.csv").write_text("\n".join(["a,b,w", *links, ""]))
    graph = (folder / "graph.yaml").read_text().replace("graph_name: web", f"graph_name: {action}")
    graph = graph.replace("size: ,", "size: {missing: 0},").replace("one-hot}", 'one-hot, missing: ""}')
    (folder / "graph.yaml").write_text(graph.replace("min-max}", "min-max, missing: 0}"))


@pytest.fixture(scope="module")
def outputs(site: Site, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outputs]:
    folder, generator = tmp_path_factory.mktemp("tables"), random.Random(0)
    links = [f"{a},{b},{n}" for n, (a, b) in enumerate(generator.sample(pairs(), 800))]
    left = [page for page in PAGES if page not in GONE] + NEW
    runs: dict[str, list[Run]] = {action: [] for action in ACTIONS}
    reasons: dict[str, str] = {}
    settings = site.s3.settings()
    with open_store(f"s3://{BUCKET}/lists", settings) as lists:
        graphs = "".join(f"  - input_uri: {TABLES}/{action}/graph.yaml\n" for action in ACTIONS)
        lists.write_bytes("tables.yaml", (SETTINGS + graphs).encode())
        for name, pages, more in (("old", PAGES, []), ("new", left, ["q0,q1,0.5"])):
            for action in ACTIONS:
                write_tables(folder / f"{name} {action}", action, pages, [*links, *more])
                with open_store(f"{TABLES}/{action}", settings) as store:
                    upload_folder(folder / f"{name} {action}", store, last="graph.yaml")
            look = site.repartition(LIST)
            site.wait(look, "success")
            for index, action in enumerate(ACTIONS):
                path = f"{look.path}/taskInstances/graph.{{}}/xcomEntries/{{}}?map_index={index}"
                run_id = site.call("GET", path.format("partition", "trigger_run_id"))["value"]
                runs[action].append(Run(run_id, OUTPUT))
                reasons[action] = site.call("GET", path.format("changes", "reason"))["value"]
        found = {}
        for action in ACTIONS:
            places = []
            for run in runs[action]:
                places.append(folder / action / str(len(places)))
                with open_store(run_root(OUTPUT, action, run.run_id), settings) as store:
                    copy_of(store, places[-1])
            newest = run_root(OUTPUT, action, runs[action][-1].run_id)
            found[action] = Outputs(*places, reasons[action], newest)
        return found


def pairs() -> list[tuple[str, str]]:
    """Return links inside of groups of ten pages, so that partitions have something to follow."""
    return [(a, PAGES[10 * (i // 10) + j]) for i, a in enumerate(PAGES) for j in range(10) if i % 10 != j]


def copy_of(store: Store, folder: Path) -> None:
    for entry in store.list():
        path = folder / entry.key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(store.read_bytes(entry.key))


@pytest.mark.parametrize("action", ACTIONS)
def test_the_scheduled_run_continues_the_one_before(
    site: Site, outputs: dict[str, Outputs], action: str
) -> None:
    output = outputs[action]
    assert "pages.csv" in output.reason
    migration = json.loads((output.after / "assignment/migration.json").read_text())
    tables, settings = f"{TABLES}/{action}/graph.yaml", site.s3.settings()
    report = partition_ops.verify(tables, output.root, tables=True, storage=settings)
    assert migration["mode"] == "incremental", migration
    assert report.passed, report.failed
    before, now = output.pages(output.before), output.pages(output.after)
    stay = before.keys() & now.keys()
    assert {*before} == {*PAGES} and now.keys() - before.keys() == {*NEW}
    assert before.keys() - now.keys() == (GONE if action == "renumber" else set())
    assert sum(before[page][2] != now[page][2] for page in stay) < len(stay) / 3
    same_ids = all(before[page][0] == now[page][0] for page in stay)
    assert same_ids == (action != "renumber")


@pytest.mark.parametrize("action", ACTIONS)
def test_removed_pages(outputs: dict[str, Outputs], action: str) -> None:
    graph = outputs[action].after / "ingest"
    names = keys(graph, "page")
    links = [{names[src], names[dst]} for src, dst in edges(graph, "page:links:page")]
    of_gone = [link for link in links if link & GONE]
    assert bool(of_gone) == (action == "keep") and len(links) > 500
    masks = [np.load(path) for path in sorted((graph / "node_data/page").glob("*_mask-0.npy"))]
    in_a_part = np.logical_or.reduce(masks)
    assert len(masks) == 3
    assert not any(in_a_part[place] for place, name in enumerate(names) if name in GONE)
    assert all(in_a_part[place] for place, name in enumerate(names) if name not in GONE)


@pytest.mark.parametrize("action", ACTIONS)
def test_embeddings_are_carried_over_by_key(outputs: dict[str, Outputs], action: str) -> None:
    output = outputs[action]
    before, now = output.pages(output.before), output.pages(output.after)
    found = pq.read_table(output.after / "idmap/carry_over/nodes/page.parquet").to_pydict()
    assert {*zip(found["old_type_new_id"], found["type_new_id"], strict=True)} == {
        (before[page][1], now[page][1]) for page in before.keys() & now.keys()
    }


def test_nothing_is_left_behind(site: Site, outputs: dict[str, Outputs]) -> None:
    assert {*outputs} == {*ACTIONS}
    with open_store(OUTPUT, site.s3.settings()) as root:
        stored = [entry.key for entry in root.list()]
    assert len([key for key in stored if key.endswith(f"/{layout.MANIFEST}")]) == 2 * len(ACTIONS)
    assert not [key for key in stored if key.endswith(layout.LOCK) or "/scratch/" in key]
