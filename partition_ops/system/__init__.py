"""Signals, temporary folders, memory, threads, progress, and the import of dgl."""
