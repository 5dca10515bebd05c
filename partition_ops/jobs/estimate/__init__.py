"""What a job will take, before it is begun; no code of the stages is used."""

from partition_ops.jobs.estimate.estimate import check_job, estimate_job
from partition_ops.jobs.estimate.result import Estimate, StageEstimate

__all__ = ["Estimate", "StageEstimate", "check_job", "estimate_job"]
