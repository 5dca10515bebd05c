"""What the engines are told of the nodes that were there before."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from partition_ops.stages.partition.problem import Parts


@dataclass(frozen=True)
class Old:
    """The old nodes of a graph that has grown.

    Attributes:
        homes: (nodes,) int32, the old partition by homogeneous ID; -1 for new nodes.
        degrees: (nodes,) int32, old numbers of neighbours, -1 for new nodes; None where they are not known.
    """

    homes: Parts
    degrees: npt.NDArray[np.int32] | None
