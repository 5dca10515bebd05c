"""Partitioning a graph that has grown: old nodes stay where they are unless moving pays.

docs/decisions/growth.md has the reasons, and what else was tried.
"""
