"""Lists of the edges that a user excludes or drops, and how many edges each action affects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from partition_ops.artifacts import layout
from partition_ops.artifacts.tasks import ArtifactWriter
from partition_ops.chunked.metadata import GraphMetadata

Ids = npt.NDArray[np.int64]
ByType = dict[int, Ids]
EDGE_ACTIONS = ("drop", "exclude", "warn")  # the first applies if an edge has findings with several


@dataclass(frozen=True)
class EdgeLists:
    """The edges that each action affects.

    Attributes:
        found: By check and edge type ID, ascending type-wise IDs of the edges that the check found.
        actions: By check, what is done about its findings.
    """

    found: Mapping[str, Mapping[int, Ids]]
    actions: Mapping[str, str]

    @cached_property
    def by_action(self) -> dict[str, ByType]:
        """By action, then edge type ID: ascending type-wise IDs; an edge is listed for one action only."""
        types = sorted({type_id for by_type in self.found.values() for type_id in by_type})
        return {
            action: _without_empty({type_id: self._of(action, type_id) for type_id in types})
            for action in EDGE_ACTIONS
        }

    @property
    def dropped_self_loops(self) -> ByType:
        """By edge type ID, ascending type-wise IDs of the edges that are dropped as self-loops."""
        dropping = self.actions["self_loop_edges"] == "drop"
        return _without_empty(self.found.get("self_loop_edges", {})) if dropping else {}

    def counts(self) -> dict[str, int]:
        """Return how many edges each action affects."""
        totals = {action: sum(map(len, types.values())) for action, types in self.by_action.items()}
        return {
            "edges_dropped": totals["drop"],
            "edges_excluded": totals["exclude"],
            "edges_warned_of": totals["warn"],
        }

    def write(self, writer: ArtifactWriter, metadata: GraphMetadata) -> dict[str, dict[str, str]]:
        """Write ``validation/<kind>/<src:rel:dst>.npy``; return the SHA-256 of each by kind and edge type."""
        lists = {
            layout.DROPPED: self.by_action["drop"],
            layout.DROPPED_SELF_LOOPS: self.dropped_self_loops,
            layout.EXCLUDED: self.by_action["exclude"],
        }
        return {kind: _write(writer, metadata, kind, types) for kind, types in lists.items()}

    def _of(self, action: str, type_id: int) -> Ids:
        before = EDGE_ACTIONS[: EDGE_ACTIONS.index(action)]
        return np.setdiff1d(self._with((action,), type_id), self._with(before, type_id), True)

    def _with(self, actions: Iterable[str], type_id: int) -> Ids:
        """Return the edges of a type that have a finding with one of the actions."""
        empty = np.empty(0, np.int64)
        chosen = [
            by_type.get(type_id, empty)
            for check, by_type in self.found.items()
            if self.actions[check] in actions
        ]
        return np.unique(np.concatenate([empty, *chosen]))


def _without_empty(types: Mapping[int, Ids]) -> ByType:
    return {type_id: ids for type_id, ids in types.items() if len(ids)}


def _write(writer: ArtifactWriter, metadata: GraphMetadata, kind: str, types: ByType) -> dict[str, str]:
    digests = {}
    for type_id, ids in types.items():
        edge_type = str(metadata.edge_types[type_id])
        digests[edge_type] = writer.write_array(layout.edge_list(kind, edge_type), ids).sha256
    return digests
