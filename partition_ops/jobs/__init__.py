"""Whole jobs over the stages: the run, its estimate, retention, changes, fetch."""
