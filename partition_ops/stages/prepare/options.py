"""Options of ``prepare``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from partition_ops.errors import UsageError
from partition_ops.options.stage_config import StageConfig, check_choice

PrepareFormat = Literal["parhip", "parmetis"]
WEIGHTS = "node-types|one|degree|(column|mask)=.+"


@dataclass(frozen=True, kw_only=True)
class PrepareConfig(StageConfig):
    """Options of ``prepare``.

    Attributes:
        format: ``parhip``, the binary graph that our engines read, or ``parmetis``, its text files.
        weights: In the text, the weights of a node; see `partition_ops.formats.parmetis.node_weights`.
        attributes: In the text, names of the features that follow as attributes; ``all`` means all.
    """

    format: PrepareFormat = "parhip"
    weights: str = "node-types"
    attributes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_choice("--format", self.format, PrepareFormat)
        if not re.fullmatch(WEIGHTS, self.weights):
            raise UsageError(
                f"--weights cannot be {self.weights!r}",
                expected="node-types, one, degree, column=FEATURE or mask=FEATURE",
            )
        if self.format == "parhip" and self.weights != "node-types":
            raise UsageError(
                "--weights is for the text of ParMETIS", remedy="Give --balance to 'partition' instead."
            )
        if self.format == "parhip" and self.attributes:
            raise UsageError(
                "--attributes is for the text of ParMETIS", remedy="Our own stages read features themselves."
            )
