"""The files that DGL's distributed training loads."""
