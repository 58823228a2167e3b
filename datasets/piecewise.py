"""Step arrays that are stored in pieces, such as one per episode, and read piece by piece when they are sliced."""

from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["PiecewiseArray"]


class PiecewiseArray:
    """Rows of many pieces as one array.

    Args:
        ends: For each piece, the number of the row after its last.
        shape: Of one row.
        dtype: Of one element.
        read: Given the number of a piece and rows inside it, returns those rows.
    """

    def __init__(
        self,
        ends: np.ndarray,
        shape: tuple[int, ...],
        dtype: Any,
        read: Callable[[int, np.ndarray], np.ndarray],
    ):
        self._ends, self._read = ends, read
        self.shape, self.dtype = (int(ends[-1]) if len(ends) else 0, *shape), np.dtype(dtype)

    def __getitem__(self, rows: Any) -> np.ndarray:
        chosen = np.arange(self.shape[0])[rows]
        flat = np.atleast_1d(chosen)
        out = np.empty((len(flat), *self.shape[1:]), self.dtype)
        owner = np.searchsorted(self._ends, flat, side="right")
        for piece in np.unique(owner).tolist():
            start = int(self._ends[piece - 1]) if piece else 0
            mine = owner == piece
            out[mine] = self._read(piece, flat[mine] - start)
        return out.reshape(*chosen.shape, *self.shape[1:])
