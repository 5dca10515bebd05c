"""Stage ``partition``: the assignment of every node to a partition."""
