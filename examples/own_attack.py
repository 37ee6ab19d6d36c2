"""An attack of one's own: a class with a method where it acts, here on updates before they are clipped and encoded.

fedpriv run examples/own_attack.toml
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedpriv.attacks import View


class Halfway:
    """Half of the mean upside down, if the server would follow it; else the mean itself, to stay unnoticed."""

    knowledge = ("everything",)  # what it can work with: a study that allows it less is refused

    def __init__(self, share: float = 0.5) -> None:
        self.share = share  # of the mean's length

    def on_updates(self, updates: NDArray[np.float64], view: View) -> NDArray[np.float64]:
        """One attacker's row in the place of its own; the same row for all, worked out once a round."""
        return np.asarray(view.once("row", lambda: self.row(view))[None])

    def row(self, view: View) -> NDArray[np.float64]:
        """The row that every attacker sends."""
        row = -self.share * view.mean
        return np.asarray(row if view.moved(row) @ view.mean < 0 else view.mean)
