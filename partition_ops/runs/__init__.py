"""The runs of one graph below its root: the lock, what a run begins from, what has changed, what is kept."""
