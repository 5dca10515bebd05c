"""DGL's chunked graph format: metadata, edges, features, ID ranges."""
