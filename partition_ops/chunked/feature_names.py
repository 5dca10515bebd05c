"""Checks of the feature names that options name, and of those that DGL reserves."""

from __future__ import annotations

from partition_ops.chunked.metadata import GraphMetadata
from partition_ops.errors import InvalidInputError, UsageError, some_of

TRAINER = "trainer_id"


def types_with_feature(metadata: GraphMetadata, name: str, purpose: str) -> list[str]:
    """Return the node types that have a feature, in the order of their IDs.

    Args:
        metadata: The graph's metadata.
        name: Name of the feature.
        purpose: Purpose of the feature, for the message: ``to balance by``.

    Raises:
        UsageError: No node type has it; the message lists the features of the graph.
    """
    having = {feature.type_name for feature in metadata.node_features if feature.name == name}
    if not having:
        known = [f"{feature.name!r} ({feature.type_name})" for feature in metadata.node_features]
        names = some_of(known, 20)
        raise UsageError(
            f"No node type has a feature {name!r} {purpose}",
            expected=f"one of {names}"
            if known
            else "no such option: no node type of this graph has features",
        )
    return [node_type for node_type in metadata.node_types if node_type in having]


def check_no_trainers(metadata: GraphMetadata) -> None:
    """Check that no feature has the name that DGL reserves for the trainers of a machine.

    Raises:
        InvalidInputError: A feature has that name.
    """
    for feature in (*metadata.node_features, *metadata.edge_features):
        if feature.name == TRAINER:
            raise InvalidInputError(
                f"The graph has a feature {feature.key!r}, a name that DGL reserves for trainers",
                remedy="Rename the feature, or partition without --num-trainers-per-machine.",
            )
