"""Options that cannot be, or do not fit a graph, are refused before hours go into it."""

from __future__ import annotations

from contextlib import suppress

from partition_ops.chunked.feature_names import check_no_trainers, types_with_feature
from partition_ops.chunked.feature_reader import feature_readers
from partition_ops.chunked.metadata import GraphMetadata
from partition_ops.errors import InvalidInputError, UsageError
from partition_ops.stages.partition.engines.parmetis.launch import check_named
from partition_ops.stages.partition.engines.registry import check_able, find_engine
from partition_ops.stages.partition.options import PartitionConfig
from partition_ops.stages.partition.weights import check_classes
from partition_ops.storage import Store


def check_options(config: PartitionConfig, metadata: GraphMetadata, source: Store) -> None:
    """Refuse what ``partition`` would refuse, as far as the metadata and the headers of files tell.

    Args:
        config: The options.
        metadata: The graph's metadata.
        source: Its root; read are nothing but the headers of the feature to balance by.

    Raises:
        UsageError: There is no such engine, it cannot do what is asked for, there are more partitions than
            nodes, or no node type has the feature ``balance_ntypes``, or it is not one integer a node.
        EngineError: A command or a library that was named is not there.
        InvalidInputError: A feature has the name that trainers need.
    """
    check_able(find_engine(config.engine), config)
    if config.engine == "parmetis":
        check_named(config.mpi)
    _check_enough_nodes(config, sum(metadata.num_nodes))
    if config.num_trainers_per_machine > 1:
        check_no_trainers(metadata)
    if config.balance_ntypes is not None:
        _check_feature(config.balance_ntypes, metadata, source)


def _check_enough_nodes(config: PartitionConfig, nodes: int) -> None:
    trainers = config.num_trainers_per_machine
    if config.num_parts * trainers > max(nodes, 1):
        each = f" of {trainers:,} trainers each" if trainers > 1 else ""
        raise UsageError(
            "There are more partitions than nodes" if trainers == 1 else "There are more trainers than nodes",
            found=f"{config.num_parts:,} partitions{each}, {nodes:,} nodes",
            expected="a node or more for each",
            remedy="Give a smaller --num-parts" + (" or --num-trainers-per-machine" if each else "") + ".",
        )


def _check_feature(name: str, metadata: GraphMetadata, source: Store) -> None:
    having = types_with_feature(metadata, name, "to balance by")
    readers = feature_readers(source, metadata)
    for key in (f"{node_type}/{name}" for node_type in having):
        with suppress(InvalidInputError):  # what is wrong with a file, validation says
            header = readers[key].header()
            if header is not None:
                check_classes(key, *header)
