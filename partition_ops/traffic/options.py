"""Options of sampling: the train nodes, the fan-outs and the size of a batch."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from partition_ops.errors import UsageError
from partition_ops.options.declare import Options, StageConfig, option, option_group

if TYPE_CHECKING:
    from partition_ops.traffic.model import Sampling

SECTION = "Training"


@dataclass(frozen=True, kw_only=True)
class SamplingOptions(Options):
    """The train nodes, and how trainers sample from them.

    A stage takes them as ``sampling: SamplingOptions = option_group(SamplingOptions)``. A job that has a
    field of this name passes its value to every stage that has one.
    """

    train_nodes: tuple[str, ...] | None = option(
        None,
        help="Node type of the train nodes, from which batches are drawn, or TYPE:MASK with a feature that is"
        " not 0 for train nodes; a type without MASK has its train_mask, or all nodes if it has none. The"
        " option may be repeated.",
        title="Train nodes",
        section=SECTION,
        metavar="TYPE[:MASK]",
        several="repeat",
        empty="the types with a feature train_mask, otherwise those with a label, otherwise all with"
        " in-edges",
    )
    fanouts: tuple[int, ...] = option(
        (10, 10),
        flag="fanout",
        help="Number of edges of each type that are sampled for a node, layer by layer; -1 means all.",
        title="Fan-outs",
        section=SECTION,
        metavar="N",
        several="words",
    )
    batch_size: int = option(
        1024,
        help="Number of seeds of a batch.",
        title="Seeds of a batch",
        section=SECTION,
        metavar="N",
        minimum=1,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if any(fanout < -1 or fanout == 0 for fanout in self.fanouts):
            raise UsageError(
                "A fanout is out of range",
                found=" ".join(map(str, self.fanouts)),
                expected="for each layer a number of edges, or -1 for all",
            )

    @property
    def sampling(self) -> Sampling:
        """The options as the model takes them."""
        from partition_ops.traffic.model import Sampling  # imports numba

        return Sampling(tuple(self.fanouts), self.batch_size)

    def options(self) -> dict[str, Any]:
        """Return the options as JSON."""
        return {name: list(one) if isinstance(one, tuple) else one for name, one in asdict(self).items()}


@dataclass(frozen=True, kw_only=True)
class SampledConfig(StageConfig):
    """Options of a stage that depends on how trainers sample."""

    sampling: SamplingOptions = option_group(SamplingOptions)

    def options(self) -> dict[str, Any]:
        """Return the options as JSON; those of the group are among the others."""
        options = super().options()
        return {**options.pop("sampling"), **options}
