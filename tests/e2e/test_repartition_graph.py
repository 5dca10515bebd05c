"""A graph that grows in the S3 server: partitioned again by the real scheduler, and left alone otherwise.

Its first partitions do not pass the quality gate and wait for a person, and another run waits for them.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

import pytest

from local_stack.airflow import BUCKET
from partition_ops.artifacts import layout
from partition_ops.storage import Store, open_store
from partition_ops.verification import verify_output
from tests.e2e.airflow_site import CONNECTION, REPARTITION, Run, Site
from tests.e2e.test_graphs_page import HOME, read
from tests.graphs import library
from tests.growth import grown

pytestmark = [pytest.mark.e2e, pytest.mark.long]
INPUT = f"s3://{BUCKET}/input/growing"
OUTPUT = f"s3://{BUCKET}/output-of-growing"
LIST = f"s3://{BUCKET}/lists/graphs.yaml"
SETTINGS = f"""\
version: 1
defaults:
  storage_conn_id: {CONNECTION}
  num_parts: 2
graphs:
  - input_uri: {INPUT}
    output_uri: {OUTPUT}
    max_imbalance: 2
    keep: 3
"""
APPROVAL = """\
    max_edge_cut: 0.001
    approval: true
"""


@dataclass(frozen=True)
class Story:
    """The runs that the tests look at.

    Attributes:
        looks: Three looks at the list: at a new graph, at one that has grown, and at one that has not.
        begun: The runs of partition_graph that the first two have begun.
        waited: A run that somebody else began while the first one waited for a person.
        latest: What ``latest.json`` named before and after the approval, and after the other run.
    """

    looks: list[Run]
    begun: list[Run]
    waited: Run
    latest: list[str | None]


@pytest.fixture(scope="module")
def root(site: Site) -> Store:
    """Root of the graph."""
    return open_store(f"{OUTPUT}/small", site.s3.settings())


@pytest.fixture(scope="module")
def story(site: Site, root: Store) -> Story:
    graph = library(papers=120)
    site.upload(graph, INPUT)
    write_list(site, SETTINGS + APPROVAL)
    look = site.repartition(LIST)
    first = Run(f"repartition__{look.run_id}__0", OUTPUT)
    site.wait_for_task(look, "graph.partition", "deferred")
    site.wait_for_question(first, "gate")
    latest = [newest(root)]
    other = site.trigger(input_uri=INPUT, output_uri=OUTPUT, num_parts=2)
    site.wait_for_task(other, "lock", "up_for_reschedule")
    approve(site, first, "gate")
    site.wait(first, "success")
    latest.append(newest(root))
    site.wait(look, "success")
    site.wait(other, "success")
    latest.append(newest(root))
    write_list(site, SETTINGS)
    site.upload(grown(graph), INPUT)
    looks = [look, site.repartition(LIST)]
    site.wait(looks[1], "success")
    looks.append(site.repartition(LIST))
    site.wait(looks[2], "success")
    begun = [Run(trigger_run_id(site, one), OUTPUT) for one in looks[:2]]
    return Story(looks, begun, other, latest)


def write_list(site: Site, text: str) -> None:
    with open_store(f"s3://{BUCKET}/lists", site.s3.settings()) as lists:
        lists.write_bytes("graphs.yaml", text.encode())


def approve(site: Site, run: Run, task_id: str) -> None:
    """As somebody does under Required actions."""
    answer = {"chosen_options": ["Approve"], "params_input": {}}
    site.call("PATCH", f"{run.path}/taskInstances/{task_id}/-1/hitlDetails", json=answer)


def newest(root: Store) -> str | None:
    """The run that ``latest.json`` names."""
    return root.read_json(layout.LATEST)["run"] if root.exists(layout.LATEST) else None


def states(site: Site, run: Run) -> dict[str, str]:
    return {task.task_id: task.state for task in site.api.tasks(REPARTITION, run.run_id)}


def reason(site: Site, run: Run) -> str:
    path = f"{run.path}/taskInstances/graph.changes/xcomEntries/reason?map_index=0"
    found: str = site.call("GET", path)["value"]
    return found


def trigger_run_id(site: Site, look: Run) -> str:
    path = f"{look.path}/taskInstances/graph.partition/xcomEntries/trigger_run_id?map_index=0"
    found: str = site.call("GET", path)["value"]
    return found


def published(site: Site, run: Run) -> Store:
    """Return the root of a run."""
    return open_store(run.root, site.s3.settings())


def test_a_new_graph_is_partitioned(site: Site, story: Story) -> None:
    assert set(states(site, story.looks[0]).values()) == {"success"}
    assert "no published run yet" in reason(site, story.looks[0])
    first = published(site, story.begun[0])
    assert first.exists(layout.MANIFEST)
    assert not first.exists("assignment/migration.json")


def test_one_waits_for_a_person_and_one_for_the_other(story: Story) -> None:
    assert story.latest == [None, story.begun[0].root, story.waited.root]


def test_a_graph_that_has_grown_is_partitioned_from_where_it_was(
    site: Site, root: Store, story: Story
) -> None:
    second = published(site, story.begun[1])
    assert "edges/1-0.parquet" in reason(site, story.looks[1])
    migration = second.read_json("assignment/migration.json")
    assert (migration["mode"], migration["previous"]["run"]) == ("incremental", story.waited.root)
    assert migration["node_types"]["paper"]["old"] == 120
    assert newest(root) == second.uri
    with open_store(INPUT, site.s3.settings()) as source:
        report = verify_output(source, second)
    assert report.passed, report.failed


def test_a_graph_that_has_not_changed_is_skipped(site: Site, root: Store, story: Story) -> None:
    assert states(site, story.looks[2]) == {
        "graphs": "success",
        "graph.changes": "skipped",
        "graph.partition": "skipped",
    }
    assert "none of" in reason(site, story.looks[2]) and "has changed" in reason(site, story.looks[2])
    assert newest(root) == story.begun[1].root


def test_nothing_is_left_behind(root: Store, story: Story) -> None:
    keys = [entry.key for entry in root.list()]
    assert layout.LOCK not in keys
    assert not [key for key in keys if "/scratch/" in key]
    assert len([key for key in keys if key.endswith("/manifest.json")]) == 3


def test_a_forced_look_partitions_what_has_not_changed_and_the_page_says_so(
    site: Site, root: Store, story: Story
) -> None:
    look = site.repartition(LIST, force=True)
    site.wait(look, "success")
    assert "has changed" in reason(site, look)  # none of the files
    forced = Run(trigger_run_id(site, look), OUTPUT)
    assert newest(root) == forced.root
    for run, why in ((story.begun[1], "changes found"), (forced, "forced")):
        assert why in read(site, f"{HOME}?dag_id={run.dag_id}&run_id={quote(run.run_id)}").text
