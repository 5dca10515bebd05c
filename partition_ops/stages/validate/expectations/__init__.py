"""Expectations on the metrics of a graph, checked by Great Expectations in a process of its own."""

from partition_ops.stages.validate.expectations.judge import Judge, JudgeError, Outcome, Verdict
from partition_ops.stages.validate.expectations.suites import Suite, read_suites

__all__ = ["Judge", "JudgeError", "Outcome", "Suite", "Verdict", "read_suites"]
