"""The stages of a run, a package each."""
