"""A public random rotation: long coordinates become many short ones, so that a small peak cuts nothing off."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import numpy as np

from fedpriv._base.arrays import Vector
from fedpriv.errors import natural, whole
from fedpriv.randomness.streams import stream


@dataclass(frozen=True, kw_only=True)
class Rotation:
    """x ↦ H·(s ∘ x)/√D: signs s drawn from a public seed, H Hadamard's matrix, x filled up with zeros to D = 2^k ≥ d.

    Lengths stay as they are. A coordinate of what comes out is about ‖x‖₂/√D: past t·‖x‖₂/√D with probability at most
    2e^{−t²/2} over the signs (Hoeffding), whatever x is. It stands in the place of Kashin's frame in [F] Remark 12.

    >>> Rotation(dimension=3, seed=1).turned(np.array([[1.0, 0.0, 0.0]]))
    array([[0.5, 0.5, 0.5, 0.5]])
    """

    dimension: int  # d
    seed: int  # public: who encodes and who decodes draw the same signs from it

    def __post_init__(self) -> None:
        whole(dimension=self.dimension)
        natural(seed=self.seed)

    @property
    def width(self) -> int:
        """D, coordinates of what comes out."""
        return 1 << (self.dimension - 1).bit_length()

    @property
    def signs(self) -> Vector:
        """s, one for each of the D coordinates."""
        return np.where(stream(self.seed, "rotation").integers(2, size=self.width), 1.0, -1.0)

    def turned(self, rows: Vector) -> Vector:
        """Each row, rotated."""
        filled = np.zeros((len(rows), self.width))
        filled[:, : self.dimension] = rows
        return _hadamard(filled * self.signs)

    def undone(self, rows: Vector) -> Vector:
        """What each rotated row was before."""
        return (_hadamard(rows) * self.signs)[:, : self.dimension]


def _hadamard(rows: Vector) -> Vector:
    """H·x/√D of every row, by halves: it is its own inverse."""
    count, width = rows.shape
    half = 1
    while half < width:
        pairs = rows.reshape(count, -1, 2, half)
        rows = np.stack((pairs[:, :, 0] + pairs[:, :, 1], pairs[:, :, 0] - pairs[:, :, 1]), axis=2)
        half *= 2
    return rows.reshape(count, width) / sqrt(width)
