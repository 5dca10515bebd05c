"""The files of a run: keys, records, assignment, partition book, ID maps, manifest, locks."""
