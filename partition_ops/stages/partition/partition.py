"""Check the options against the graph, run an engine, and write its assignment."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from partition_ops.artifacts import layout
from partition_ops.artifacts.graph_counts import still_there_in
from partition_ops.artifacts.records import forget_task
from partition_ops.artifacts.stage import Beside
from partition_ops.artifacts.tasks import ArtifactWriter, Counters, StageResult, Task
from partition_ops.artifacts.write_access import check_apart
from partition_ops.chunked.feature_reader import check_no_trainers, feature_readers, types_with_feature
from partition_ops.chunked.metadata import METADATA, GraphMetadata, load_metadata
from partition_ops.errors import InvalidInputError, UsageError
from partition_ops.stages.partition.engine import TRAIN, Engine, find_engine, objective_of
from partition_ops.stages.partition.engines import engine_names
from partition_ops.stages.partition.incremental.previous_run import PreviousRun, check_previous
from partition_ops.stages.partition.incremental.repartition import repartition, write_migration
from partition_ops.stages.partition.options import NO_LIMIT, PartitionConfig
from partition_ops.stages.partition.problem import NO_WEIGHTS, Problem, check_classes, tolerances
from partition_ops.stages.partition.training import keep_traffic, set_aside, with_traffic
from partition_ops.stages.partition.write_assignment import write_assignment, write_trainers
from partition_ops.storage import Store
from partition_ops.system.memory import give_back_freed_memory
from partition_ops.system.memory_guard import at_work
from partition_ops.system.parallel import at_once
from partition_ops.system.progress import NoProgress, Progress
from partition_ops.traffic.train_nodes import train_types

if TYPE_CHECKING:
    from partition_ops.traffic.kept_half_edges import KeptHalfEdges

logger = logging.getLogger("partition_ops")


def partition_nodes(
    config: PartitionConfig,
    source: Store,
    destination: Store,
    *,
    previous: Store | None = None,
    progress: Progress | None = None,
    beside: Beside = at_once,
    half_edges: KeptHalfEdges | None = None,
) -> StageResult:
    """Write ``assignment/``: DGL's text files and our binary twin of them.

    With an earlier run, old nodes keep their partition unless moving pays, and ``assignment/migration.json``
    reports what moved; see `partition_ops.stages.partition.incremental.repartition`.

    Args:
        config: Options.
        source: Root of the input graph; its ``metadata.json`` is read, and the feature to balance by.
        destination: Root of the run, where ``prepare`` has been done if the engine needs the graph.
        previous: Root of an earlier finished run over the same graph, since when it has grown.
        progress: Shows that the engine is at work.
        beside: Called with the rest of the work, which no other task needs: what trainers are expected to
            fetch, for ``quality``.
        half_edges: What ``prepare`` has left in this process.

    Raises:
        UsageError: The options do not fit one another or the graph, see `check_options`; or the earlier run
            has the same root, or lies in it or around it.
        InvalidInputError: ``prepare`` has not been done, or the earlier run is not finished.
        EngineError: The engine failed.
    """
    engine = find_engine(config.engine)
    if not engine.needs_graph:
        forget_task(destination, "prepare")  # of a run with another engine: it is not part of this run
        destination.delete(layout.PREPARED)  # which has no record if that run was killed in it
    metadata = load_metadata(source, graph_name=config.graph_name)
    check_options(config, metadata, source)
    check_apart(source, destination, metadata)
    kept = still_there_in(source)
    earlier = PreviousRun(check_previous(previous, destination), kept) if previous is not None else None

    rest: list[Callable[[], None]] = []

    def work(writer: ArtifactWriter) -> Counters:
        limited = config if engine.needs_graph else replace(config, edge_tolerance=NO_LIMIT)
        problem = Problem(limited, metadata, destination, source, progress=progress or NoProgress())
        if objective_of(config, metadata) == TRAIN:
            problem = with_traffic(problem, half_edges)
        if half_edges is not None:
            half_edges.close()  # the engine may need the room
        stack.enter_context(set_aside(problem.traffic))
        give_back_freed_memory()  # of the edges; the engine needs arrays of other sizes
        with problem.progress.step(f"Partitioning with {engine.name}", 1, "graph") as advance:
            outcome = repartition(problem, engine, earlier)
            advance(1)
        problem.notes.update(_note_whole_nodes(problem, engine))
        problem.forget()  # the model of the traffic needs the memory
        parts = outcome.parts
        if config.num_trainers_per_machine > 1:
            write_trainers(writer, metadata, parts)
            parts = parts // config.num_trainers_per_machine
        rest.append(partial(keep_traffic, replace(problem, edge_weights=NO_WEIGHTS), parts))
        more = {} if outcome.cut is None else {"edge_cut": outcome.cut.to_json()}
        written = write_assignment(
            writer, metadata, parts, config=config, dgl_name=engine.dgl_name, more=more
        )
        for name, still_there in kept.items():
            writer.write_array(f"{layout.ASSIGNMENT}/{layout.assignment_still_there(name)}", still_there)
        migration = write_migration(writer, problem, earlier, outcome) if earlier else {}
        return {**written, **problem.notes, **migration}

    options = {**config.options(), "num_nodes": metadata.num_nodes}
    if objective_of(config, metadata) != TRAIN:
        options.pop("sampling", None)
    if kept:
        options["still_there"] = {name: hashlib.sha256(one.data).hexdigest() for name, one in kept.items()}
    if earlier is not None:
        options |= {**config.incremental_options(), "previous": earlier.digest}
    after = ["prepare"] if engine.needs_graph else []
    outputs = [layout.ASSIGNMENT]
    with ExitStack() as stack:
        done = Task("partition", destination, work, options=options, after=after, outputs=outputs).run()
        if half_edges is not None:
            half_edges.close()  # of a task that was done already
        if rest:
            beside(partial(_finish, stack.pop_all(), rest[0]))
    return done


def _finish(stack: ExitStack, rest: Callable[[], None]) -> None:
    with stack, at_work("partition"):
        rest()


def _note_whole_nodes(problem: Problem, engine: Engine) -> dict[str, Any]:
    """Return by node type the largest share of a partition, if whole nodes need more than the tolerance."""
    config, metadata = problem.config, problem.metadata
    if not engine.needs_graph or config.balance == "none" or config.balance_features or config.num_parts == 1:
        return {}
    default = config.tolerance or engine.tolerance
    counts = {
        name: count for name, count in zip(metadata.node_types, metadata.num_nodes, strict=True) if count
    }
    sums = np.array([*counts.values()], np.int64)
    allowed = tolerances(config, np.ones(len(sums), np.int64), sums, default)
    more = {name: round(float(one), 3) for name, one in zip(counts, allowed, strict=True) if one > default}
    if more:
        logger.info("partition: a node cannot be split, so a partition may hold its share times %s", more)
    return {"whole_nodes": more} if more else {}


def check_node_counts(metadata: GraphMetadata, source: Store) -> None:
    """Reject numbers of nodes that features contradict, or that are more than twice those of all edges."""
    readers = feature_readers(source, metadata)
    for feature in metadata.node_features:
        readers[feature.key].check_rows()
    nodes, edges = sum(metadata.num_nodes), sum(metadata.num_edges)
    if nodes > 2 * edges:
        raise InvalidInputError(
            f"{source.uri_of(METADATA)}: most of the nodes have no edge",
            found=f"{nodes:,} nodes and {edges:,} edges",
            expected=f"at most {2 * edges:,} nodes, the ends of all edges",
            remedy="Correct num_nodes_per_chunk or num_nodes_per_type in metadata.json, or leave out nodes"
            " without edges.",
        )


def check_options(config: PartitionConfig, metadata: GraphMetadata, source: Store) -> None:
    """Raise the errors that ``partition`` would raise, as far as metadata and headers of files show.

    Raises:
        UsageError: There is no such engine, it does not support an option, there are more partitions than
            nodes, or more nodes than the engine can number, or no node type has the feature
            ``balance_ntypes``, or it is not one integer a node.
        EngineError: A command or a library that the options name does not exist.
        InvalidInputError: A feature has the name that trainers need, or ``metadata.json`` has more nodes than
            the engine can number and than files show.
    """
    engine = find_engine(config.engine)
    engine.check(config)
    trainers, nodes = config.num_trainers_per_machine, sum(metadata.num_nodes)
    if not engine.can_number(nodes):
        check_node_counts(metadata, source)
        others = [name for name in engine_names() if find_engine(name).can_number(nodes)]
        raise UsageError(
            f"The engine {engine.name!r} numbers nodes with 32 bits",
            found=f"{nodes:,} nodes",
            expected=f"at most {engine.most_nodes:,}",
            remedy=f"Use --engine {' or '.join(others)}.",
        )
    if config.all_parts > max(nodes, 1):
        each = f" of {trainers:,} trainers each" if trainers > 1 else ""
        raise UsageError(
            f"There are more {'trainers' if each else 'partitions'} than nodes",
            found=f"{config.num_parts:,} partitions{each}, {nodes:,} nodes",
            expected="a node or more for each",
            remedy="Give a smaller --num-parts" + (" or --num-trainers-per-machine" if each else "") + ".",
        )
    if config.num_trainers_per_machine > 1:
        check_no_trainers(metadata)
    readers = feature_readers(source, metadata) if config.balance_features else {}
    for name in config.balance_features:
        for key in (f"{one}/{name}" for one in types_with_feature(metadata, name, "to balance by")):
            with suppress(InvalidInputError):  # validation reports broken files
                header = readers[key].header()
                if header is not None:
                    check_classes(key, *header)
    if objective_of(config, metadata) == TRAIN:
        train_types(metadata, config.sampling.train_nodes or ())
