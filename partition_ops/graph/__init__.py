"""DGL's chunked graph format: metadata, edge and feature readers, ID ranges."""
