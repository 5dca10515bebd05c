"""Options of ``publish``."""

from __future__ import annotations

from dataclasses import dataclass

from partition_ops.options.declare import Options, StageConfig, option, option_group


@dataclass(frozen=True, kw_only=True)
class Gate(Options):
    """Largest figures of partitions that are published."""

    max_edge_cut: float | None = option(
        None,
        help="Largest share of the edges that are cut, such as 0.2. Worse partitions are not published.",
        title="Largest share of edges cut",
        section="Publishing",
        metavar="X",
        minimum=0,
        maximum=1,
        empty="any",
    )
    max_imbalance: float | None = option(
        None,
        help="Largest imbalance of a node type: its nodes in one partition divided by its ideal share. Worse"
        " partitions are not published.",
        title="Largest imbalance of a node type",
        section="Publishing",
        metavar="X",
        minimum=1,
        empty="any",
        form={"maximum": 1024},
    )
    max_remote_rows: float | None = option(
        None,
        help="Largest number of rows that the slowest trainer is expected to fetch from other partitions for"
        " a batch. Worse partitions are not published.",
        title="Largest number of remote rows a batch",
        section="Publishing",
        metavar="X",
        minimum=0,
        empty="any",
    )
    max_slowest: float | None = option(
        None,
        help="Largest ratio of these rows of the slowest trainer to the mean of all trainers, such as 1.2."
        " Worse partitions are not published.",
        title="Largest ratio of the slowest trainer to the mean",
        section="Publishing",
        metavar="X",
        minimum=1,
        empty="any",
    )
    max_moved: float | None = option(
        None,
        help="Largest share of the nodes of the previous run that moved to another partition. Worse"
        " partitions are not published.",
        title="Largest share of old nodes moved",
        section="Publishing",
        metavar="X",
        minimum=0,
        maximum=1,
        empty="any",
        only_with="previous",
    )


@dataclass(frozen=True, kw_only=True)
class Replacement(Options):
    """Whether a graph may be published over one of another input."""

    replace_input: bool = option(
        False,
        help="Replace the finished output, or in Airflow the newest published run with this graph name, even"
        " if it was made from another input.",
        title="Replace another input",
        section="Publishing",
    )


@dataclass(frozen=True, kw_only=True)
class PublishConfig(StageConfig):
    """Options of ``publish``."""

    # name of the run; None outside Airflow, where there is no ``latest.json`` either
    run_id: str | None = None
    gate: Gate = option_group(Gate)
