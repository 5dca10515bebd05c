"""Graphs in memory as inputs: of arrays; of DGL, PyG and NetworkX; of Arrow tables."""
