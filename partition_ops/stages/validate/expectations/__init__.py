"""Expectations on the metrics of a graph, checked by Great Expectations in a process of its own."""

from partition_ops.stages.validate.expectations.evaluator import (
    Evaluation,
    Evaluator,
    EvaluatorError,
    Outcome,
)
from partition_ops.stages.validate.expectations.suites import Suite, read_suites

__all__ = ["Evaluation", "Evaluator", "EvaluatorError", "Outcome", "Suite", "read_suites"]
