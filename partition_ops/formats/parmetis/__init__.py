"""ParMETIS's text files, written and read back."""
