"""Clusters, contraction and refinement of large graphs: what multilevel partitioning is made of."""
