"""What a run leaves on storage: keys, records, assignment, partition book, ID maps, manifest, locks."""
