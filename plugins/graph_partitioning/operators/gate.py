"""The quality gate, and the person who may let partitions through all the same."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.providers.standard.exceptions import HITLRejectException, HITLTimeoutError
from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk.exceptions import AirflowFailException

from graph_partitioning.operators.base import GraphRunOperator
from graph_partitioning.settings import is_true, number

if TYPE_CHECKING:
    from airflow.sdk import Context

    from partition_ops.stages.publish.gate import Breach

SUBJECT = "Publish partitions that do not pass the quality gate?"


class QualityGateOperator(GraphRunOperator, ApprovalOperator):
    """Fails the run, or asks a person, where partitions are worse than allowed. It comes before ``publish``.

    Example::

        QualityGateOperator(
            task_id="gate",
            input_uri="s3://graphs/citations",
            output_uri="s3://partitioned",
            run_id="{{ run_id }}",
            max_edge_cut=0.3,
            approval=True,
        )

    Args:
        max_edge_cut: Largest share of the edges that are cut; ``""`` allows any.
        max_imbalance: Largest imbalance of a node type; likewise.
        max_moved: Largest share of the old nodes that moved; likewise. A run that follows no other passes,
            with a warning in the log: a graph on a list has the same settings from its first run on.
        approval: Wait for a person to decide, under **Required actions**, instead of failing at once; text
            such as ``"true"`` means it too.
        approval_hours: How long to wait; after that the run fails.
        kwargs: As for `GraphRunOperator`.
    """

    template_fields: Sequence[str] = (
        *GraphRunOperator.template_fields,
        "max_edge_cut",
        "max_imbalance",
        "max_moved",
        "approval",
        "approval_hours",
    )

    def __init__(
        self,
        *,
        max_edge_cut: float | str = "",
        max_imbalance: float | str = "",
        max_moved: float | str = "",
        approval: bool | str = False,
        approval_hours: float | str = 24,
        **kwargs: Any,
    ) -> None:
        super().__init__(subject=SUBJECT, fail_on_reject=True, **kwargs)
        self.max_edge_cut = max_edge_cut
        self.max_imbalance = max_imbalance
        self.max_moved = max_moved
        self.approval = approval
        self.approval_hours = approval_hours

    def execute(self, context: Context) -> Any:
        breaches, uri = self._breaches()
        if not breaches:
            return None
        found = "; ".join(map(str, breaches))
        if not is_true(self.approval):
            raise AirflowFailException(f"The partitions in {uri} do not pass the quality gate: {found}")
        self.log.warning("The partitions do not pass the quality gate: %s", found)
        self.body = "\n".join([f"`{uri}`", "", *(f"- {breach}" for breach in breaches)])
        self.response_timeout = timedelta(hours=number("approval_hours", self.approval_hours))
        return ApprovalOperator.execute(self, context)

    def execute_complete(self, context: Context, event: dict[str, Any]) -> Any:
        """Go on after the answer; a retry would only ask again."""
        try:
            answer = super().execute_complete(context, event)
        except (HITLRejectException, HITLTimeoutError) as error:
            raise AirflowFailException(f"The partitions were not let through: {error}") from error
        return {"approved_by": answer["responded_by_user"]}

    def _breaches(self) -> tuple[list[Breach], str]:
        from partition_ops.stages.publish.gate import check_gate, moved_share
        from partition_ops.stages.publish.options import Gate

        asked = {name: getattr(self, name) for name in ("max_edge_cut", "max_imbalance", "max_moved")}
        with self.opened() as (_, destination):
            given = {name: number(name, value) for name, value in asked.items() if value not in ("", None)}
            gate = Gate(**given)
            if gate.max_moved is not None and moved_share(destination) is None:
                self.log.warning("The run follows no other, so max_moved says nothing of it")
            return check_gate(gate, destination), destination.uri
