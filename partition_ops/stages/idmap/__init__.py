"""Stage ``idmap``: where every node and edge of the input went, and rows put in its order or back."""
