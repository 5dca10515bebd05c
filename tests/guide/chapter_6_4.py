"""The edges of the graph that chapter 6.4 draws."""

from __future__ import annotations

ONE = [0, 0, 0, 1, 2, 2, 2, 3, 3, 4, 4, 5, 5, 6, 7, 7, 8, 9, 10]
OTHER = [1, 2, 3, 3, 3, 4, 5, 5, 6, 5, 8, 6, 8, 9, 8, 11, 11, 10, 11]
SRC, DST = ONE + OTHER, OTHER + ONE
