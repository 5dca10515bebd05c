"""Options of ``prepare``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from partition_ops.errors import UsageError
from partition_ops.options.declare import StageConfig, option
from partition_ops.options.values import tasks_option

PrepareFormat = Literal["parhip", "parmetis"]
WEIGHTS = "node-types|one|degree|(column|mask)=.+"
RANGE_BITS = 9  # as many ranges of nodes as a core can write to at once
ROW_BITS = 16  # of a node's number inside a range; more ranges are worth it if they are not too many
MOST_ROWS = 1 << 28  # nodes of such a graph


def range_shift(nodes: int) -> int:
    """Return the binary logarithm of the number of nodes in a range that ``prepare`` sorts at once."""
    shift = max(nodes.bit_length() - RANGE_BITS, 0)
    return min(shift, ROW_BITS) if nodes <= MOST_ROWS else shift


@dataclass(frozen=True, kw_only=True)
class PrepareTasks(StageConfig):
    """The options of ``prepare`` that a whole job takes."""

    prepare_tasks: int = tasks_option(
        "prepare",
        1,
        "Number of tasks that prepare is split into. In the DAG, they run on several workers and"
        " exchange files below the output; elsewhere, they run one after another. The result does not depend"
        " on the option.",
    )


@dataclass(frozen=True, kw_only=True)
class PrepareConfig(PrepareTasks):
    """Options of ``prepare``."""

    format: PrepareFormat = option(
        "parhip",
        help="parhip: the binary graph that the engines read. parmetis: the text files of ParMETIS.",
        title="Format",
        form=None,
    )
    weights: str = option(
        "node-types",
        help="Weights of a node in the text for ParMETIS: node-types (one for each type), one, degree,"
        " column=FEATURE (a node feature of integers) or mask=FEATURE (two weights: inside and outside,"
        " such as a train mask).",
        metavar="KIND",
        only_with="format=parmetis",
        form=None,
    )
    attributes: tuple[str, ...] = option(
        (),
        help="A feature to append to the columns of the text for ParMETIS, in the node file, the edge file or"
        " both. The option may be repeated; all means every feature.",
        metavar="NAME",
        several="repeat",
        only_with="format=parmetis",
        form=None,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.format == "parmetis" and self.prepare_tasks > 1:
            raise UsageError(
                "--prepare-tasks does not split the text for ParMETIS",
                found=f"--prepare-tasks {self.prepare_tasks}, --format parmetis",
                remedy="Leave --prepare-tasks out.",
            )
        if not re.fullmatch(WEIGHTS, self.weights):
            raise UsageError(
                f"--weights cannot be {self.weights!r}",
                expected="node-types, one, degree, column=FEATURE or mask=FEATURE",
            )
