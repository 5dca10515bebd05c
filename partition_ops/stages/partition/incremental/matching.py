"""The matching of maximum weight between the rows and the columns of a square matrix."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from partition_ops.system.compilation import compiled_with_arrays


def best_matching(weights: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the column of each row, so that the sum of the weights is the greatest.

    Of several best matchings, it is the one that ``scipy.optimize.linear_sum_assignment`` returns.

    Args:
        weights: (n, n), less than 2^53 in absolute value.

    Returns:
        (n,) int64, a permutation. Peak memory: that of the weights. Time: n^3 at most.
    """
    found: npt.NDArray[np.int64] = _match(-weights.astype(np.float64))
    return found


@compiled_with_arrays
def _match(costs: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """Return the column of each row at the least cost, by shortest augmenting paths.

    This is the modified Jonker-Volgenant algorithm of D. F. Crouse, "On implementing 2D rectangular
    assignment algorithms", IEEE Transactions on Aerospace and Electronic Systems 52 (2016).
    """
    count = len(costs)
    row_prices, column_prices = np.zeros(count), np.zeros(count)
    column_of, row_of = np.full(count, -1, np.int64), np.full(count, -1, np.int64)
    lengths, before = np.empty(count), np.empty(count, np.int64)
    left = np.empty(count, np.int64)
    seen_rows, seen_columns = np.zeros(count, np.bool_), np.zeros(count, np.bool_)
    for first in range(count):
        lengths[:] = np.inf
        seen_rows[:] = False
        seen_columns[:] = False
        for i in range(count):
            left[i] = count - 1 - i
        num_left, row, free, length = count, first, -1, 0.0
        while free < 0:
            seen_rows[row] = True
            least, at = np.inf, -1
            for i in range(num_left):
                column = left[i]
                through = length + costs[row, column] - row_prices[row] - column_prices[column]
                if through < lengths[column]:
                    before[column] = row
                    lengths[column] = through
                if lengths[column] < least or (lengths[column] == least and row_of[column] < 0):
                    least, at = lengths[column], i
            length, column = least, left[at]
            seen_columns[column] = True
            num_left -= 1
            left[at] = left[num_left]
            if row_of[column] < 0:
                free = column
            else:
                row = row_of[column]
        row_prices[first] += length
        for i in range(count):
            if seen_rows[i] and i != first:
                row_prices[i] += length - lengths[column_of[i]]
            if seen_columns[i]:
                column_prices[i] -= length - lengths[i]
        column = free
        while True:
            row = before[column]
            row_of[column] = row
            column, column_of[row] = column_of[row], column
            if row == first:
                break
    return column_of
