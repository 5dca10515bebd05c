"""The features of an output: which there are, and where their rows are."""

from __future__ import annotations

from functools import cached_property, partial
from typing import Literal

from partition_ops.artifacts import layout
from partition_ops.errors import UsageError
from partition_ops.formats.dgl.array_places import ArrayPlace
from partition_ops.train.features import FeatureRows, FileRows, Locator, MappedRows, PartRows
from partition_ops.train.id_vectors import EDGES, NODES, new_ids
from partition_ops.train.mapped import MappedFile, ResidentLimit
from partition_ops.train.ranges import BlockCache, RangeRows
from partition_ops.train.source import IdKind, Ids, OutputFiles

Access = Literal["read", "mapped", "ranges"]
NODE_FILE, EDGE_FILE = "node_feat.dgl", "edge_feat.dgl"


class FeatureFiles:
    """Opens the features of the nodes, or of the edges, of an output.

    Args:
        files: The output.
        kind: ``node`` or ``edge``. Nodes of every partition have their rows, since other partitions' nodes
            are neighbours; edges have them in the partitions that are open.
        ids: Which IDs are asked for.
        num_ids: Number of IDs of each type.
        access: ``read``: rows of files by system calls; ``mapped``: of mapped files; both fetch whole files
            into the cache where they are on S3; ``ranges``: rows by range requests.
        resident: Watches over what is mapped.
        blocks: The blocks that range requests brought.
    """

    def __init__(
        self,
        files: OutputFiles,
        kind: Literal["node", "edge"],
        ids: IdKind,
        num_ids: list[int],
        access: Access,
        resident: ResidentLimit,
        blocks: BlockCache,
    ) -> None:
        self._files = files
        self._kind = kind
        self._ids = ids
        self._num_ids = num_ids
        self._access = access
        self._resident = resident
        self._blocks = blocks
        self._name = NODE_FILE if kind == "node" else EDGE_FILE
        self._ranges = files.book.nodes if kind == "node" else files.book.edges
        self._mapped: dict[int, MappedFile] = {}

    @cached_property
    def places(self) -> dict[int, dict[str, ArrayPlace]]:
        """Where the features are, by partition and by ``type/name``."""
        known = range(self._files.book.num_partitions()) if self._kind == "node" else self._files.parts
        return {part: self._files.tensors(part, self._name) for part in known}

    def names(self, type_id: int) -> list[str]:
        """Names of the features that a type has."""
        prefix = f"{self._ranges.names.names[type_id]}/"
        some = next(iter(self.places.values()))
        return sorted(key.removeprefix(prefix) for key in some if key.startswith(prefix))

    def rows(self, name: str, type_id: int) -> FeatureRows:
        """One feature of one type.

        Raises:
            UsageError: The type has no such feature.
        """
        key = f"{self._ranges.names.names[type_id]}/{name}"
        if name not in self.names(type_id):
            raise UsageError(
                f"There is no {self._kind} feature {key!r}",
                expected="one of "
                + (", ".join(map(repr, self.names(type_id))) or "none: it has no features"),
            )
        some = next(iter(self.places.values()))[key]
        parts = [self._part(part, key) for part in range(self._files.book.num_partitions())]
        return FeatureRows(some.dtype, some.shape[1:], self.locator(type_id), parts)

    def locator(self, type_id: int) -> Locator:
        """Finds the partition and the row of the nodes or edges of a type."""
        vectors = None if self._ids == "new" else self._new_ids[type_id]
        what = f"The {self._ids} ID of {self._kind} type {self._ranges.names.names[type_id]!r}"
        return Locator(self._ranges.typed_ends[:, type_id], vectors, what)

    @cached_property
    def _new_ids(self) -> list[Ids]:
        name = NODES if self._kind == "node" else EDGES
        return new_ids(self._files, name, self._num_ids, self._resident)

    def _part(self, part: int, key: str) -> PartRows | None:
        if part not in self.places:
            return None
        place = self.places[part][key]
        if self._access == "mapped":
            return MappedRows(partial(self._open, part), place, self._resident)
        artifact = layout.partition_file(part, self._name)
        if self._access == "read":
            return FileRows(partial(self._files.kept, artifact), place, self._files.output.uri_of(artifact))
        return RangeRows(self._blocks, artifact, self._files.size(artifact), place)

    def _open(self, part: int) -> MappedFile:
        if part not in self._mapped:
            path = self._files.kept(layout.partition_file(part, self._name))
            self._mapped[part] = self._resident.watch(MappedFile(path))
        return self._mapped[part]
