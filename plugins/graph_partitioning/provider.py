"""Airflow's description of this package as a provider, which ``airflow providers list`` shows."""

from __future__ import annotations

from typing import Any

from partition_ops import __version__

INTEGRATION = "Graph partitioning"
OPERATORS = "graph_partitioning.operators"
HOOKS = ["graph_partitioning.hooks.storage"]


def get_provider_info() -> dict[str, Any]:
    """Return the description. The hook takes connections of the type ``aws`` of the amazon provider."""
    return {
        "package-name": "partition-ops",
        "name": INTEGRATION,
        "description": "Validates, partitions and converts heterogeneous graphs for distributed training.",
        "versions": [__version__],
        "integrations": [{"integration-name": INTEGRATION, "tags": ["software"]}],
        "operators": [{"integration-name": INTEGRATION, "python-modules": [OPERATORS]}],
        "hooks": [{"integration-name": INTEGRATION, "python-modules": HOOKS}],
    }
