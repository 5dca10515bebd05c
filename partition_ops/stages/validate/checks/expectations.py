"""The user's own expectations, which Great Expectations checks."""

from partition_ops.stages.validate.check import Check

CHECK = Check(
    name="expectations",
    finding="an expectation of the user's own suites is not met",
    harm="values that the user does not allow are not noticed; expectations with the action warn only warn",
)
