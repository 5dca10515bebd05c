"""Machinery of options: declarations, and everything that is made from them."""
