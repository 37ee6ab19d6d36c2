"""An aggregation rule of one's own: a class that is called in every round with the messages of all clients.

fedpriv run examples/own_rule.toml
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


class Closest:
    """The mean of the rows nearest to the coordinates' median."""

    least = 3  # rows without which it cannot work

    def __init__(self, kept: float = 0.5) -> None:
        self.kept = kept  # the share of the rows that is averaged

    def __call__(self, matrix: NDArray[np.float64], aid: Any) -> NDArray[np.float64]:
        """One vector from a row a client; `aid` has the round's generator, and the server's own update if asked for."""
        far = ((matrix - np.median(matrix, axis=0)) ** 2).sum(axis=1)
        near = np.argsort(far, kind="stable")[: max(1, int(self.kept * len(matrix)))]
        return np.asarray(matrix[near].mean(axis=0))
