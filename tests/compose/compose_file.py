"""docker-compose.yaml as data."""

from __future__ import annotations

import re
from typing import Any

import yaml

from local_stack.folders import PROJECT

COMPOSE = PROJECT / "docker-compose.yaml"
EXAMPLE = PROJECT / ".env.example"
Service = dict[str, Any]


def document() -> dict[str, Any]:
    """The file as YAML gives it, with its variables."""
    loaded: dict[str, Any] = yaml.safe_load(COMPOSE.read_text())
    return loaded


def services() -> dict[str, Service]:
    found: dict[str, Service] = document()["services"]
    return found


def image(service: str) -> str:
    return str(services()[service]["image"])


def dockerfile_base() -> str:
    """The image that our own Dockerfile begins with."""
    (base,) = re.findall(r"^FROM (\S+)$", (PROJECT / "Dockerfile").read_text(), re.MULTILINE)
    return str(base)


def runs_once(service: Service) -> bool:
    """Whether a service does something and ends, such as making the database."""
    return service["restart"] == "no"


def conditions(service: Service) -> dict[str, str]:
    """Return the conditions on other services before this one starts."""
    return {name: entry["condition"] for name, entry in service.get("depends_on", {}).items()}


def start_order(profiles: set[str]) -> list[str]:
    """The services of some profiles, each after those that it depends on."""
    wanted = {
        name: service
        for name, service in services().items()
        if not service.get("profiles") or profiles & set(service["profiles"])
    }
    order: list[str] = []
    while len(order) < len(wanted):
        ready = [
            name
            for name, service in wanted.items()
            if name not in order and set(conditions(service)) & set(wanted) <= set(order)
        ]
        if not ready:
            raise ValueError(f"Services wait for each other: {sorted(set(wanted) - set(order))}")
        order += ready
    return order
