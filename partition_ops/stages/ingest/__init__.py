"""Stage ``ingest``: make a graph in the chunked format from tables with the user's own keys."""
