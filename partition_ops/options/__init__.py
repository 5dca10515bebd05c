"""Every option of every stage."""
