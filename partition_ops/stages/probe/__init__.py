"""Sample mini-batches as trainers would, for the quality report."""
