"""docker-compose.yaml, checked against the schema of the Compose specification and rules of this project."""

from __future__ import annotations

import json
import re
from importlib.resources import files
from pathlib import Path

import jsonschema
import pytest

from local_stack.env_file import MADE, make_env_file
from local_stack.folders import PROJECT
from partition_ops import __version__
from tests.compose.compose_file import COMPOSE, EXAMPLE, dockerfile_base, document, image, runs_once, services

VARIABLE = re.compile(r"\$\{([A-Z0-9_]+)(?:(:?[-?])([^}]*))?\}")
PINNED = re.compile(
    r"[a-z0-9/.-]+:(RELEASE\.\d{4}-\d\d-\d\dT\d\d-\d\d-\d\dZ|\d+\.\d+\.\d+[a-z0-9.-]*|\d+\.\d+-[a-z]+)"
)
SECRET = re.compile(r"PASSWORD|SECRET|TOKEN|_KEY|ROOT_USER")
LONG_RUNNING = [name for name, service in services().items() if not runs_once(service)]


def example() -> dict[str, str]:
    pairs = (line.partition("=") for line in EXAMPLE.read_text().splitlines())
    return {name: value for name, found, value in pairs if found and not name.startswith("#")}


def variables() -> list[tuple[str, str, str]]:
    """Return name, operator, and default or message of every variable in the file."""
    return VARIABLE.findall(COMPOSE.read_text())


def test_it_follows_the_compose_specification() -> None:
    schema = files("check_jsonschema") / "builtin_schemas" / "vendor" / "compose-spec.json"
    validator = jsonschema.validators.validator_for(json.loads(schema.read_text()))
    checker = validator(json.loads(schema.read_text()))
    assert [error.message for error in checker.iter_errors(document())] == []
    broken = {**document(), "services": {"worker": {"imagee": "x"}}}
    assert not checker.is_valid(broken)


@pytest.mark.parametrize("name", [image(name) for name in services()] + [dockerfile_base()])
def test_every_image_is_pinned(name: str) -> None:
    assert PINNED.fullmatch(name)


@pytest.mark.parametrize(
    "name", ["postgres", "postgres:latest", "postgres:17", "minio/minio:RELEASE", "redis:7-slim"]
)
def test_what_is_not_pinned_is_seen(name: str) -> None:
    assert not PINNED.fullmatch(name)


def test_our_own_image_has_the_version_of_the_package() -> None:
    assert image("worker") == f"partition-ops:{__version__}"


@pytest.mark.parametrize("name", LONG_RUNNING)
def test_every_service_that_stays_has_a_health_check(name: str) -> None:
    check = services()[name]["healthcheck"]
    assert len(check["test"]) > 1 and check["interval"] and check["timeout"] and check["retries"]


@pytest.mark.parametrize("name", services())
def test_every_service_is_kept_small(name: str) -> None:
    service = services()[name]
    assert service["read_only"] and service["mem_limit"]
    assert service["cap_drop"] == ["ALL"] and service["security_opt"] == ["no-new-privileges:true"]
    assert "privileged" not in service and service.get("network_mode") in (None, "none")
    # this project's image sets its user
    user = str(service.get("user", "airflow" if service["image"].startswith("partition-ops:") else "root"))
    assert user not in ("root", "0", "0:0") or (name == "volume" and service["cap_add"] == ["CHOWN"])


def test_the_image_is_of_a_user_without_rights() -> None:
    users = re.findall(r"^USER (\S+)$", (PROJECT / "Dockerfile").read_text(), re.MULTILINE)
    assert users == ["50000:0"]


def test_ports_are_open_to_this_machine_only() -> None:
    ports = [port for service in services().values() for port in service.get("ports", ())]
    assert ports and all(str(port).startswith("127.0.0.1:") for port in ports)
    assert "0.0.0.0" not in COMPOSE.read_text()


def test_nothing_waits_for_a_service_that_does_not_exist() -> None:
    for service in services().values():
        for other, entry in service.get("depends_on", {}).items():
            once = runs_once(services()[other])
            assert (entry["condition"] == "service_completed_successfully") == once
            # services without a profile must not depend on a service with one
            assert entry.get("required", True) is not bool(services()[other].get("profiles")) or service.get(
                "profiles"
            )


def test_no_secret_is_in_the_repository() -> None:
    for name, operator, default in variables():
        if SECRET.search(name):
            assert operator in ("", "?", ":?"), f"{name} has the default {default!r}"
    for name, service in services().items():
        for variable, value in service.get("environment", {}).items():
            if SECRET.search(variable):
                assert VARIABLE.search(str(value)), f"{name}: {variable}"
    assert {name for name, value in example().items() if SECRET.search(name) and value} == set()


def test_a_secret_that_is_missing_stops_the_start() -> None:
    demanded = {name for name, operator, _ in variables() if operator in ("?", ":?")}
    assert demanded == {name for name in example() if SECRET.search(name)}


def test_every_setting_is_in_the_example_and_explained() -> None:
    assert set(example()) == {name for name, _, _ in variables()} | {"COMPOSE_PROFILES"}
    text = EXAMPLE.read_text()
    assert text.count("\n#") >= len(example()) / 2


def test_defaults_are_those_of_the_example() -> None:
    for name, operator, default in variables():
        if operator in ("-", ":-"):
            assert example()[name] == default, name


def test_no_host_of_an_index_or_registry_is_named() -> None:
    for path in (COMPOSE, PROJECT / "Dockerfile", EXAMPLE):
        assert not re.search(
            r"https?://(?!\$|minio:|api-server:|localhost|127\.0\.0\.1)", path.read_text()
        ), path


def test_made_secrets_are_kept_and_differ(tmp_path: Path) -> None:
    first, second = tmp_path / "first.env", tmp_path / "second.env"
    assert set(make_env_file(EXAMPLE, first)) == set(example())
    make_env_file(EXAMPLE, second)
    assert first.stat().st_mode & 0o777 == 0o600
    values = [
        dict(line.split("=", 1) for line in path.read_text().splitlines() if "=" in line)
        for path in (first, second)
    ]
    for name in MADE:
        assert len(values[0][name]) >= 16 and values[0][name] != values[1][name]
    first.write_text(first.read_text().replace("AIRFLOW_PORT=8080", "AIRFLOW_PORT=1\nMINE=a=b"))
    kept = first.read_text()
    assert make_env_file(EXAMPLE, first) == []
    assert "AIRFLOW_PORT=1\n" in first.read_text() and "MINE=a=b\n" in first.read_text()
    assert {line for line in kept.splitlines() if "=" in line} == {
        line for line in first.read_text().splitlines() if "=" in line
    }


def test_workers_lack_the_secrets_that_only_servers_need() -> None:
    for name in ("AIRFLOW__API_AUTH__JWT_SECRET", "AIRFLOW__CORE__FERNET_KEY", "AIRFLOW_ADMIN_PASSWORD"):
        assert name in services()["api-server"]["environment"]
        assert name not in services()["worker"]["environment"]


def test_the_logs_are_outside_of_the_allowed_roots() -> None:
    environment = services()["worker"]["environment"]
    logs = environment["AIRFLOW__LOGGING__REMOTE_BASE_LOG_FOLDER"].replace("${S3_BUCKET:-graphs}", "graphs")
    for listed in (
        environment["PARTITION_OPS_ALLOWED_ROOTS"].partition(":-")[2].rstrip("}"),
        example()["ALLOWED_ROOTS"],
    ):
        assert len(listed.split()) == 2
        assert not any(f"{logs}/".startswith(f"{root}/") for root in listed.split())
