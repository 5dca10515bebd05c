"""The traffic of distributed training: the rows that trainers are expected to read from each other."""
