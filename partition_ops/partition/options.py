"""Options that cannot be, or do not fit a graph, are refused before hours go into it."""

from __future__ import annotations

from partition_ops.config import PartitionConfig
from partition_ops.graph.metadata import GraphMetadata
from partition_ops.graph.named import types_with_feature
from partition_ops.parmetis.launch import check_named
from partition_ops.partition.engines import check_able, find_engine


def check_options(config: PartitionConfig, metadata: GraphMetadata) -> None:
    """Refuse what ``partition`` would refuse, as far as the metadata tells.

    Raises:
        UsageError: There is no such engine, it cannot do what is asked for, or no node type has the feature
            ``balance_ntypes``.
        EngineError: A command or a library that was named is not there.
    """
    check_able(find_engine(config.engine), config)
    if config.engine == "parmetis":
        check_named(config.mpi)
    if config.balance_ntypes is not None:
        types_with_feature(metadata, config.balance_ntypes, "to balance by")
