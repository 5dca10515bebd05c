"""Expectations on what was measured: Great Expectations in a process of its own."""

from partition_ops.stages.validate.expectations.judge import Judge
from partition_ops.stages.validate.expectations.metrics import METRICS
from partition_ops.stages.validate.expectations.process import JudgeError
from partition_ops.stages.validate.expectations.suites import Suite, read_suites
from partition_ops.stages.validate.expectations.verdict import Outcome, Verdict

__all__ = ["METRICS", "Judge", "JudgeError", "Outcome", "Suite", "Verdict", "read_suites"]
