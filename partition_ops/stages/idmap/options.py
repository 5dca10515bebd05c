"""Options of ``idmap``."""

from __future__ import annotations

from dataclasses import dataclass

from partition_ops.errors import UsageError
from partition_ops.options.declare import Options, StageConfig, option


@dataclass(frozen=True, kw_only=True)
class IdMapConfig(StageConfig):
    """Options of ``idmap``."""

    vectors: bool = option(
        False,
        help="Also write idmap/nodes/<type>.npy and idmap/edges/<src:rel:dst>.npy: original IDs by type-wise"
        " new ID, the vectors that DGL's partition_graph returns with return_mapping=True.",
        title="Vectors of original IDs",
        section="More",
    )
    part_maps: bool = option(
        False,
        help="Also write partitions/node_map.npy and partitions/edge_map.npy: the partition of every node and"
        " edge, by homogeneous ID of the input.",
        title="Partition maps",
        section="More",
    )


@dataclass(frozen=True, kw_only=True)
class RemapConfig(Options):
    """Options of ``idmap restore`` and ``idmap apply``: one of the two."""

    node_type: str | None = option(None, help="Node type that the rows belong to.", metavar="T", form=None)
    edge_type: str | None = option(
        None, help="Edge type that the rows belong to.", metavar="SRC:REL:DST", form=None
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.node_type is None) == (self.edge_type is None):
            raise UsageError("Name one type", expected="either --node-type or --edge-type")


@dataclass(frozen=True, kw_only=True)
class OwnIds(Options):
    """The files with the user's own IDs, for ``idmap restore``."""

    ids: tuple[str, ...] | None = option(
        None,
        help="Files with your own IDs, by type-wise ID: .parquet, .csv with a header, or .txt.",
        metavar="FILE",
        several="words",
        empty="no column with your own IDs",
        form=None,
    )
    ids_column: str | None = option(
        None,
        help="Column of the files that holds the IDs.",
        metavar="NAME",
        only_with="ids",
        empty="the only column",
        form=None,
    )
    ids_from: str | None = option(
        None,
        help="The graph whose metadata.json names the files (node_ids, edge_ids).",
        metavar="INPUT",
        form=None,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.ids and self.ids_from:
            raise UsageError(
                "There are two sources of IDs",
                found="--ids and --ids-from",
                expected="either --ids or --ids-from",
            )
