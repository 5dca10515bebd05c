"""Checks of every invariant of a finished output, independent of the code that writes outputs."""

from partition_ops.verification.verification_report import CHECKS, Check, VerifyReport
from partition_ops.verification.verify import check_finished, verify_output

__all__ = ["CHECKS", "Check", "VerifyReport", "check_finished", "verify_output"]
