"""Check every invariant of a finished output, independently of the code that wrote it."""

from partition_ops.verify.report import CHECKS, Check, VerifyReport
from partition_ops.verify.verify import verify_output

__all__ = ["CHECKS", "Check", "VerifyReport", "verify_output"]
