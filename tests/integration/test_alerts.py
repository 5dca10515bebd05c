"""Alerts through Airflow's own notifiers, to a real webhook and a real mail server: to whom, and when."""

from __future__ import annotations

import email
import json
import os
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.policy import default
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.standard.operators import hitl
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException, TaskAwaitingInput
from graph_partitioning.alerts import check_alerts, send, tell_failure
from graph_partitioning.operators.gate import QualityGateOperator
from graph_partitioning.operators.repartition import ListGraphsOperator, LookForChangesOperator
from graph_partitioning.runs import run_root

from partition_ops.artifacts import layout
from partition_ops.errors import InvalidInputError, UsageError
from partition_ops.jobs.options import RunConfig
from partition_ops.jobs.whole_job import run_job
from partition_ops.stages.publish.options import PublishConfig
from partition_ops.stages.publish.publish import publish_run
from partition_ops.storage import open_store
from tests.alert_servers import Told, mail_server, webhook
from tests.graphs import library

HTTP = "airflow.providers.http.notifications.http.HttpNotifier"
ALERTS = f"""
hook:
  notifier: {HTTP}
  arguments:
    http_conn_id: alerts
    endpoint: hook
    json: {{title: "{{{{ alert.title }}}}", text: "{{{{ alert.text }}}}", url: "{{{{ alert.url }}}}"}}
  days: 7
approvals:
  notifier: {HTTP}
  arguments: {{http_conn_id: alerts, endpoint: approvals, json: {{event: "{{{{ alert.event }}}}"}}}}
  events: [approval]
"""


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Iterator[Told]:
    """What a webhook is told, with the alerts above."""
    with webhook() as (port, found):
        monkeypatch.setenv("AIRFLOW_CONN_ALERTS", f"http://127.0.0.1:{port}")
        monkeypatch.setenv("AIRFLOW_VAR_GRAPH_ALERTS", ALERTS)
        monkeypatch.setenv("AIRFLOW_VAR_GRAPH_PARTITIONING_AIRFLOW_ID", "here")
        yield found


@pytest.fixture
def where(tmp_path: Path) -> dict[str, Any]:
    """A graph with a published run ``one``."""
    found = {"input_uri": str(library().write(tmp_path / "in")), "output_uri": str(tmp_path / "out")}
    run = open_store(run_root(found["output_uri"], "small", "one"))
    source, root = open_store(found["input_uri"]), open_store(f"{found['output_uri']}/small")
    run_job(RunConfig(num_parts=2, engine="random"), source, run)
    publish_run(PublishConfig(run_id="one"), source, run, latest=root)
    return found


def run(operator: Any, **context: Any) -> Any:
    ti = SimpleNamespace(id="ti", dag_id="partition_graph", run_id="one", xcom_push=lambda key, value: None)
    return operator.execute({"ti": ti, "task_instance": ti, "run_id": "one", "dag": None, **context})


def gate(where: dict[str, Any], **options: Any) -> QualityGateOperator:
    return QualityGateOperator(
        task_id="gate", run_id="one", graph_name="small", max_edge_cut=0.001, **where, **options
    )


def test_a_run_beyond_a_limit_is_told(where: dict[str, Any], told: Told) -> None:
    with pytest.raises(
        AirflowFailException, match=r"0\.001 allowed\. Read its quality page; then .*the limits"
    ):
        run(gate(where, alerts="hook, approvals"))
    ((path, message),) = told
    assert (path, message["title"]) == ("/hook", "small: the partitions have drifted")
    assert "at most 0.001 allowed" in message["text"]


def test_a_run_that_waits_for_approval_is_told(
    where: dict[str, Any], told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hitl, "upsert_hitl_detail", lambda **_: None)  # Airflow's database
    with pytest.raises(TaskAwaitingInput):
        run(gate(where, alerts="hook, approvals", approval=True, approval_hours=5))
    (_, message), (other, event) = told
    assert message["title"] == "small: a run waits for approval" and "within 5 hours" in message["text"]
    assert (other, event) == ("/approvals", {"event": "approval"})


def test_a_run_that_passes_or_names_no_alert_tells_nobody(where: dict[str, Any], told: Told) -> None:
    with pytest.raises(AirflowFailException):
        run(gate(where))
    run(QualityGateOperator(task_id="gate", run_id="one", max_edge_cut=1, alerts="hook", **where))
    assert told == []


@pytest.mark.parametrize(
    ("age", "before", "said"),
    [
        (6, None, False),
        (8, None, True),
        (8, 1.5, True),  # the look before was in the first week
        (8, 0.5, False),  # it was in the second one, and has told it
        (15, 0.5, False),
        (15, 2, True),
        (30, 40, True),  # the look before was before the run
    ],
)
def test_a_graph_that_was_not_renewed_is_told_once_in_its_days(
    where: dict[str, Any], told: Told, age: float, before: float | None, said: bool
) -> None:
    manifest = Path(run_root(where["output_uri"], "small", "one")) / layout.MANIFEST
    now = datetime.now(UTC)
    os.utime(manifest, ((now - timedelta(days=age)).timestamp(),) * 2)
    graph = {
        "storage_conn_id": None,
        "alerts": "hook, approvals",
        "num_parts": 2,
        "engine": "random",
        **where,
    }
    look = LookForChangesOperator(task_id="look", graph=graph)
    with pytest.raises(AirflowSkipException):
        run(look, prev_start_date_success=before and now - timedelta(days=before))
    assert [path for path, _ in told] == ["/hook"] * said
    for _, message in told:
        assert message["title"] == f"{where['input_uri']}: the graph was not renewed"
        assert "published last on" in message["text"] and "none of" in message["text"]
        assert message["text"].endswith("should have changed, check what writes its input.")


def test_a_look_that_fails_is_told(where: dict[str, Any], told: Told) -> None:
    graph = {"alerts": "hook", **where}
    task = LookForChangesOperator(task_id="look", graph=graph)
    tell_failure({"task": task, "exception": AirflowFailException("no such bucket"), "dag": None})
    assert told[0][1]["text"] == "no such bucket"


def test_a_mail_is_sent(where: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    alert = {
        "notifier": "airflow.providers.smtp.notifications.smtp.SmtpNotifier",
        "arguments": {
            "from_email": "airflow@example.org",
            "to": "owners@example.org",
            "subject": "{{ alert.title }}",
            "html_content": "<p>{{ alert.text }}</p>",
        },
    }
    with mail_server() as (port, mails):
        connection = {
            "conn_type": "smtp",
            "host": "127.0.0.1",
            "port": port,
            "extra": {"disable_ssl": True, "disable_tls": True},
        }
        monkeypatch.setenv("AIRFLOW_CONN_SMTP_DEFAULT", json.dumps(connection))
        monkeypatch.setenv("AIRFLOW_VAR_GRAPH_ALERTS", json.dumps({"mail": alert}))
        send({"dag": None}, {"alerts": "mail", "graph_name": "small"}, "failure", "ingest: no such table")
    mail = email.message_from_string(mails[0], policy=default)
    assert (mail["subject"], mail["to"]) == ("small: the run failed", "owners@example.org")
    assert "<p>ingest: no such table</p>" in mail.get_body().get_content()


def test_a_webhook_that_is_down_fails_no_run(where: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_ALERTS", "http://127.0.0.1:1")
    monkeypatch.setenv("AIRFLOW_VAR_GRAPH_ALERTS", ALERTS)
    with pytest.raises(AirflowFailException, match="quality gate"):
        run(gate(where, alerts="hook"))
    monkeypatch.setenv("AIRFLOW_VAR_GRAPH_ALERTS", "[")
    with pytest.raises(AirflowFailException, match="quality gate"):
        run(gate(where, alerts="hook"))


@pytest.mark.parametrize(
    ("definition", "error", "said"),
    [
        (None, UsageError, "There is no alert 'x'"),
        ("[s3cret", InvalidInputError, "does not define alerts"),
        ({"notifier": HTTP, "s3cret": 1}, InvalidInputError, "does not define alerts"),
        ({"notifier": "os.system"}, InvalidInputError, "not a notifier"),
        ({"notifier": "nowhere.Notifier"}, InvalidInputError, "There is no notifier nowhere.Notifier"),
        ({"notifier": "Notifier"}, InvalidInputError, "There is no notifier Notifier"),
        ({"notifier": HTTP, "arguments": {"colour": 1}}, InvalidInputError, "does not take these arguments"),
        ({"notifier": HTTP, "events": ["failure"], "days": 3}, InvalidInputError, "'days' without"),
    ],
)
def test_wrong_definitions_are_refused_before_any_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, definition: Any, error: type[Exception], said: str
) -> None:
    if definition is not None:
        text = definition if isinstance(definition, str) else json.dumps({"x": definition})
        monkeypatch.setenv("AIRFLOW_VAR_GRAPH_ALERTS", text)
    with pytest.raises(error, match=said) as caught:
        check_alerts({"alerts": "x"})
    assert "s3cret" not in str(caught.value)
    listed = {"version": 1, "graphs": [{"input_uri": "/a", "output_uri": "/b", "alerts": "x"}]}
    (tmp_path / "graphs.yaml").write_text(json.dumps(listed))
    with pytest.raises(AirflowFailException, match=said):
        run(ListGraphsOperator(task_id="list", graphs=str(tmp_path / "graphs.yaml")))


def test_a_run_cannot_name_a_notifier_of_its_own(told: Told) -> None:
    with pytest.raises(UsageError, match="There is no alert"):
        check_alerts({"alerts": HTTP})


def test_the_example_of_the_documentation_defines_alerts(monkeypatch: pytest.MonkeyPatch) -> None:
    text = (Path(__file__).parents[2] / "docs" / "schedule.md").read_text()
    (example,) = [one for one in re.findall(r"```yaml\n(.*?)```", text, re.DOTALL) if "notifier:" in one]
    monkeypatch.setenv("AIRFLOW_VAR_GRAPH_ALERTS", example)
    check_alerts({"alerts": "owners, oncall"})
