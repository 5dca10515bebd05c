"""Duplicate and self-loop edges, by what is done about them."""

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
EDGE_ACTIONS = ("drop", "exclude", "warn")  # an edge for which two are chosen meets the first


@dataclass(frozen=True)
class AffectedEdges:
    """What becomes of the edges that repeat another one or are self-loops.

    Attributes:
        repeated: By edge type ID, ascending type-wise IDs of edges that repeat an earlier one.
        self_loops: By edge type ID, ascending type-wise IDs of self-loops.
        actions: What is done about the findings of ``duplicate_edges`` and ``self_loop_edges``.
    """

    repeated: Mapping[int, Ids]
    self_loops: Mapping[int, Ids]
    actions: Mapping[str, str]

    @cached_property
    def by_action(self) -> dict[str, ByType]:
        """By action, then edge type ID: ascending type-wise IDs; an edge is there for one action only."""
        return {
            action: _some({type_id: self._of(action, type_id) for type_id in self._types()})
            for action in EDGE_ACTIONS
        }

    @property
    def dropped_self_loops(self) -> ByType:
        """By edge type ID, ascending type-wise IDs of the edges that are dropped as self-loops."""
        dropping = self.actions["self_loop_edges"] == "drop"
        return _some(self.self_loops) if dropping else {}

    def counts(self) -> dict[str, int]:
        """How many edges each action affects."""
        totals = {action: sum(map(len, types.values())) for action, types in self.by_action.items()}
        return {
            "edges_dropped": totals["drop"],
            "edges_excluded": totals["exclude"],
            "edges_warned_of": totals["warn"],
        }

    def write(self, task: ArtifactWriter, metadata: GraphMetadata) -> dict[str, dict[str, str]]:
        """Write ``validation/<kind>/<src:rel:dst>.npy``; by kind and edge type, the SHA-256 of each list."""
        lists = {
            layout.DROPPED: self.by_action["drop"],
            layout.DROPPED_SELF_LOOPS: self.dropped_self_loops,
            layout.EXCLUDED: self.by_action["exclude"],
        }
        return {kind: _write(task, metadata, kind, types) for kind, types in lists.items()}

    def _types(self) -> Iterable[int]:
        return sorted({*self.repeated, *self.self_loops})

    def _of(self, action: str, type_id: int) -> Ids:
        harder = EDGE_ACTIONS[: EDGE_ACTIONS.index(action)]
        return np.setdiff1d(self._chosen((action,), type_id), self._chosen(harder, type_id), True)

    def _chosen(self, actions: tuple[str, ...], type_id: int) -> Ids:
        """Edges with a finding for which one of the actions is chosen."""
        found = {"duplicate_edges": self.repeated, "self_loop_edges": self.self_loops}
        empty = np.empty(0, np.int64)
        chosen = [ids.get(type_id, empty) for check, ids in found.items() if self.actions[check] in actions]
        return np.unique(np.concatenate([empty, *chosen]))


def _some(types: Mapping[int, Ids]) -> ByType:
    return {type_id: ids for type_id, ids in types.items() if len(ids)}


def _write(task: ArtifactWriter, metadata: GraphMetadata, kind: str, types: ByType) -> dict[str, str]:
    digests = {}
    for type_id, ids in types.items():
        edge_type = str(metadata.edge_types[type_id])
        digests[edge_type] = task.write_array(layout.edge_list(kind, edge_type), ids).sha256
    return digests
