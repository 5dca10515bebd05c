"""Stage ``publish``: the manifest, and then the pointer to the newest run."""
