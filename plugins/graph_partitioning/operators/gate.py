"""The quality gate, with an optional approval by a person."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from airflow.providers.standard.exceptions import HITLRejectException, HITLTimeoutError
from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import Param
from airflow.sdk.definitions.param import ParamsDict
from airflow.sdk.exceptions import AirflowFailException

from graph_partitioning.alerts import send
from graph_partitioning.operators.base import GraphRunOperator
from graph_partitioning.operators.task_messages import explain_failures, fail
from graph_partitioning.options import Alerting, Approval
from graph_partitioning.runs import lock_holder
from partition_ops.stages.publish.options import Gate

if TYPE_CHECKING:
    from airflow.sdk import BaseNotifier, Context

    from partition_ops.stages.publish.gate import Limited

COMMENT = "comment"
MISSED = "No answer"
SUBJECT = "Publish partitions that do not pass the quality gate?"


class QualityGateOperator(GraphRunOperator, ApprovalOperator, options=(Gate, Approval, Alerting)):
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

    Args: As for `GraphRunOperator`, and the options of `Gate`, `Approval` and `Alerting`, as values or as
        text from templates; ``""`` for a limit allows any figure. A run that follows no other passes
        ``max_moved``, with a warning in the log, because a graph on a list has the same settings from its
        first run on. A person answers under **Required actions**.
    """

    template_fields: Sequence[str] = GraphRunOperator.template_fields  # not those of ApprovalOperator

    def __init__(self, **kwargs: Any) -> None:
        comment = Param(
            "", source="task", type="string", title="Comment", description="Why: it stays with the run."
        )
        super().__init__(subject=SUBJECT, fail_on_reject=True, **kwargs)
        self.params.update(ParamsDict({COMMENT: comment}))  # those of the DAG are no question to a person

    def execute(self, context: Context) -> Any:
        breaches, drifted, uri = self._breaches(context)
        if drifted:
            send(context, vars(self), "drift", drifted)
        if not breaches:
            return None
        found = "; ".join(map(str, breaches))
        problem = f"The partitions do not pass the quality gate: {found}"
        with explain_failures(self.log):
            approval = self.config(Approval)
        if not approval.approval:
            send(context, vars(self), "drift", problem)
            fail(f"{problem}. Read its quality page; then partition with other options, or raise the limits.")
        self.log.warning("%s", problem)
        self.body = "\n".join([f"`{uri}`", "", *(f"- {breach}" for breach in breaches)])
        self.response_timeout = timedelta(hours=approval.approval_hours)
        self._keep_lock(context)
        text = f"{problem}. Approve or reject them within {approval.approval_hours:g} hours."
        tell = partial(send, settings=vars(self), event="approval", text=text)
        self.notifiers = [cast("BaseNotifier", tell)]  # Airflow calls it when the question can be answered
        return ApprovalOperator.execute(self, context)

    def execute_complete(self, context: Context, event: dict[str, Any]) -> Any:
        """Continue after the answer; it fails at once if rejected, because a retry would ask again."""
        if "error" not in event:
            self._keep_answer(context, event)
        elif event["error_type"] == "timeout":
            hours = self.config(Approval).approval_hours
            late = {"comment": f"Nobody has answered within {hours:g} hours."}
            missed = {"chosen_options": [MISSED], "responded_at": datetime.now(UTC), "params_input": late}
            self._keep_answer(context, missed)
        try:
            answer = super().execute_complete(context, event)
        except HITLRejectException:
            given = _answer(event)
            comment = f": {given['comment']}" if given["comment"] else ""
            fail(f"The partitions were not approved: {given['by'] or 'somebody'} rejected them{comment}")
        except HITLTimeoutError as error:
            fail(f"The partitions were not approved: {error}")
        return {"approved_by": answer["responded_by_user"]}

    def _keep_answer(self, context: Context, event: dict[str, Any]) -> None:
        """Write the answer, or that there was none, into the run.

        A failure is logged only, because a retry would ask again.
        """
        from partition_ops.artifacts.layout import APPROVAL
        from partition_ops.errors import PartitionOpsError
        from partition_ops.stages.publish.gate import check_gate

        answer = _answer(event)
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
        from partition_ops.artifacts.lock import extend_lock
        from partition_ops.artifacts.lock_document import DAG_RUN_TIMEOUT

        with self.opened() as (_, destination):
            if self.run_id and destination.exists(BEGINNING):
                with self.graph_of(destination) as root:
                    timeout = (self.response_timeout or timedelta()) + DAG_RUN_TIMEOUT
                    extend_lock(root, lock_holder(context), timeout)

    def _breaches(self, context: Context) -> tuple[list[Limited], str, str]:
        """Return the limits that are exceeded, why the cut has drifted if it has, and the root of the run."""
        from partition_ops.artifacts.layout import APPROVAL
        from partition_ops.artifacts.verified_run import drift_of
        from partition_ops.stages.publish.gate import check_gate, moved_share

        with self.opened() as (_, destination):
            if destination.exists(APPROVAL):  # of an earlier attempt, before the task was cleared
                with self.fenced(context, destination):
                    destination.delete([APPROVAL])
            gate = self.config(Gate)
            if gate.max_moved is not None and moved_share(destination) is None:
                self.log.warning("The run follows no other, so max_moved does not apply to it")
            return check_gate(gate, destination), drift_of(destination), destination.uri


def _answer(event: dict[str, Any]) -> dict[str, str]:
    """Return the answer of a person, who gave it, when, and the comment."""
    who = event.get("responded_by_user") or {}
    return {
        "answer": ", ".join(event["chosen_options"]),
        "by": str(who.get("name") or who.get("id") or ""),
        "at": event["responded_at"].isoformat(timespec="seconds"),
        "comment": str((event["params_input"] or {}).get(COMMENT) or ""),
    }
