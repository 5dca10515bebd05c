"""Training on one machine from a finished output of the Python environment, on a disk or on S3."""
