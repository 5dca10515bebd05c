"""Stage ``validate``: everything that would make a later stage fail, or worse, quietly wrong."""
