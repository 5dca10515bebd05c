"""The running Python environment as a heterogeneous graph: input for the demo, without a download."""

GRAPH_NAME = "python_environment"
