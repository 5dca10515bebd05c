"""The quality gate, with an optional approval by a person."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.providers.standard.exceptions import HITLRejectException, HITLTimeoutError
from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import Param
from airflow.sdk.definitions.param import ParamsDict
from airflow.sdk.exceptions import AirflowFailException

from graph_partitioning.operators.base import GraphRunOperator, explain_failures, fail
from graph_partitioning.options import Approval
from graph_partitioning.runs import lock_holder
from partition_ops.stages.publish.options import Gate

if TYPE_CHECKING:
    from airflow.sdk import Context

    from partition_ops.stages.publish.gate import Limited

COMMENT = "comment"
SUBJECT = "Publish partitions that do not pass the quality gate?"


class QualityGateOperator(GraphRunOperator, ApprovalOperator, options=(Gate, Approval)):
    """Fails the run, or asks a person, if partitions are worse than allowed. It comes before ``publish``.

    Example::

        QualityGateOperator(
            task_id="gate",
            input_uri="s3://graphs/citations",
            output_uri="s3://partitioned",
            run_id="{{ run_id }}",
            max_edge_cut=0.3,
            approval=True,
        )

    Args: As for `GraphRunOperator`, and the options of `Gate` and `Approval`, as values or as text from
        templates; ``""`` for a limit allows any figure. A run that follows no other passes ``max_moved``,
        with a warning in the log, because a graph on a list has the same settings from its first run on. A
        person answers under **Required actions**.
    """

    template_fields: Sequence[str] = GraphRunOperator.template_fields  # not those of ApprovalOperator

    def __init__(self, **kwargs: Any) -> None:
        comment = Param(
            "", source="task", type="string", title="Comment", description="Why: it stays with the run."
        )
        super().__init__(subject=SUBJECT, fail_on_reject=True, **kwargs)
        self.params.update(ParamsDict({COMMENT: comment}))  # those of the DAG are no question to a person

    def execute(self, context: Context) -> Any:
        breaches, uri = self._breaches(context)
        if not breaches:
            return None
        found = "; ".join(map(str, breaches))
        with explain_failures(self.log):
            approval = self.config(Approval)
        if not approval.approval:
            fail(f"The partitions in {uri} do not pass the quality gate: {found}")
        self.log.warning("The partitions do not pass the quality gate: %s", found)
        self.body = "\n".join([f"`{uri}`", "", *(f"- {breach}" for breach in breaches)])
        self.response_timeout = timedelta(hours=approval.approval_hours)
        self._keep_lock(context)
        return ApprovalOperator.execute(self, context)

    def execute_complete(self, context: Context, event: dict[str, Any]) -> Any:
        """Continue after the answer; it fails at once if rejected, because a retry would ask again."""
        if "error" not in event:
            self._keep_answer(context, event)
        try:
            answer = super().execute_complete(context, event)
        except (HITLRejectException, HITLTimeoutError) as error:
            fail(f"The partitions were not approved: {error}")
        return {"approved_by": answer["responded_by_user"]}

    def _keep_answer(self, context: Context, event: dict[str, Any]) -> None:
        """Write the answer into the run. A failure is logged only, because a retry would ask again."""
        from partition_ops.artifacts.layout import APPROVAL
        from partition_ops.errors import PartitionOpsError
        from partition_ops.stages.publish.gate import check_gate

        who = event.get("responded_by_user") or {}
        answer = {
            "answer": ", ".join(event["chosen_options"]),
            "by": str(who.get("name") or who.get("id") or ""),
            "at": event["responded_at"].isoformat(timespec="seconds"),
            "comment": str((event["params_input"] or {}).get(COMMENT) or ""),
        }
        self.log.info("%(answer)s by %(by)s: %(comment)s", answer)
        try:
            with self.opened() as (_, run), self.fenced(context, run):
                limits = [str(one) for one in check_gate(self.config(Gate), run)]
                run.write_json(APPROVAL, {**answer, "limits": limits})
        except (PartitionOpsError, AirflowFailException) as error:
            self.log.warning("The answer was not written into the run: %s", error)

    def _keep_lock(self, context: Context) -> None:
        """Let the lock of the graph outlast the wait, in which nothing renews it."""
        from partition_ops.artifacts.layout import BEGINNING
        from partition_ops.artifacts.lock import DAG_RUN_TIMEOUT, extend_lock

        with self.opened() as (_, destination):
            if self.run_id and destination.exists(BEGINNING):
                with self.graph_of(destination) as root:
                    timeout = (self.response_timeout or timedelta()) + DAG_RUN_TIMEOUT
                    extend_lock(root, lock_holder(context), timeout)

    def _breaches(self, context: Context) -> tuple[list[Limited], str]:
        from partition_ops.artifacts.layout import APPROVAL
        from partition_ops.stages.publish.gate import check_gate, moved_share

        with self.opened() as (_, destination):
            if destination.exists(APPROVAL):  # of an earlier attempt, before the task was cleared
                with self.fenced(context, destination):
                    destination.delete([APPROVAL])
            gate = self.config(Gate)
            if gate.max_moved is not None and moved_share(destination) is None:
                self.log.warning("The run follows no other, so max_moved does not apply to it")
            return check_gate(gate, destination), destination.uri
