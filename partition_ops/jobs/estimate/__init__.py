"""Estimate what a job will take, before it begins; no heavy library is imported."""

from partition_ops.jobs.estimate.estimate import check_job, check_stage, estimate_job
from partition_ops.jobs.estimate.result import Estimate

__all__ = ["Estimate", "check_job", "check_stage", "estimate_job"]
