"""Commands of docs/airflow.md, and the picture of a quality page in the README."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from local_stack.airflow import airflow_environment
from local_stack.folders import PROJECT, load_secrets
from partition_ops.cli import main
from tests.e2e.airflow_site import CONNECTION, DAG_ID, OUTPUT, Run, Site, wait_until
from tests.e2e.browser import Browser
from tests.e2e.guide import tools_on_path
from tests.pages import commands_to_run
from tests.release.conftest import Save

pytestmark = pytest.mark.e2e
AT_AMAZON = "https://s3.example.org"


def test_the_commands_of_the_page(site: Site) -> None:
    """The connection is that of the page, but for the address; another run uses it."""
    token, trigger, add = commands_to_run(PROJECT / "docs/airflow.md")
    secrets = load_secrets(site.folders)
    env = {
        **airflow_environment(site.folders, secrets, site.s3, 0),
        "PATH": tools_on_path(os.environ["PATH"]),
        "AIRFLOW": site.url(""),
        "USER_NAME": "admin",
        "PASSWORD": site.password(),
        "KEY_ID": secrets.s3_access_key,
        "SECRET": secrets.s3_secret_key,
    }

    def shell(script: str) -> str:
        done = subprocess.run(["bash", "-euc", script], env=env, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        return done.stdout

    run = Run(json.loads(shell(f"{token}\n{trigger}"))["dag_run_id"], OUTPUT)
    site.call("DELETE", f"connections/{CONNECTION}")
    assert add.startswith(f"airflow connections add {CONNECTION} ") and AT_AMAZON in add
    shell(add.replace(AT_AMAZON, str(site.s3.endpoint_url)))
    other = site.trigger(num_parts=2)
    site.wait(run, "success")
    site.wait(other, "success")
    assert site.call("GET", run.path)["conf"]["num_parts"] == 2 and run.dag_id == DAG_ID


def test_the_quality_page_of_the_tutorial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, browser: Browser, save: Save
) -> None:
    """The picture of the README: the packages of the tutorial in four partitions."""
    monkeypatch.chdir(tmp_path)
    graph = PROJECT / "examples/debian_packages/graph.yaml"
    assert main(["run", str(graph), "out", "--num-parts", "4", "--on-defect", "duplicate_edges=warn"]) == 0
    browser.show_as(width=1000, height=760)
    browser.open((tmp_path / "out/quality/report.html").as_uri())
    browser.wait_for_text("Partitions of packages", "Nodes of each type by partition")
    wait_until(lambda: browser.evaluate("document.querySelectorAll('svg').length"))
    save(browser, "quality")
