"""Signals, temporary folders, memory, threads, progress, JSON documents, and the import of dgl."""
