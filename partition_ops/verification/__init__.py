"""Check every invariant of a finished output, independently of the code that wrote it."""

from partition_ops.verification.report import CHECKS, Check, VerifyReport
from partition_ops.verification.verify import verify_output

__all__ = ["CHECKS", "Check", "VerifyReport", "verify_output"]
