"""Local model poisoning, made for one rule each. Fang, Cao, Jia and Gong 2020, section 4."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Annotated, ClassVar

import numpy as np

from fedpriv._base.arrays import Vector
from fedpriv.attacks._spread import squares
from fedpriv.attacks._view import ALL, SOME, View
from fedpriv.errors import limited, real
from fedpriv.settings import check_fields

_HALVINGS = 17  # to about 1e−5 of the first step, the paper's smallest


@dataclass(frozen=True, kw_only=True)
class FangTrim:
    """Against median and trimmed mean: beyond the honest values, on the side that the mean points away from.

    Where μ_j > 0 below the smallest known value, at random down to `stretch` times it (or its share of 1/stretch where
    that is lower), else above the largest. Knowing the attackers' own updates alone: between μ_j ∓ 3s_j and μ_j ∓ 4s_j.
    Every attacker draws its own.
    """

    stretch: Annotated[
        float, real, limited("must be larger than 1", above=1), "b, how far beyond the honest values at most"
    ] = 2.0

    knowledge: ClassVar = SOME

    def __post_init__(self) -> None:
        """Refuse, in a study's table of its attack, a stretch that is not larger than 1."""
        check_fields(self)

    def on_updates(self, updates: Vector, view: View) -> Vector:
        """The attackers' updates, a row drawn for each beyond the honest values, in the place of their own."""
        down = view.mean > 0
        if view.knowledge == "byzantine":
            side = np.where(down, -view.deviation, view.deviation)
            near, far = view.mean + 3 * side, view.mean + 4 * side
        else:
            lowest = view.once("lowest", lambda: view.known.min(axis=0))
            highest = view.once("highest", lambda: view.known.max(axis=0))
            near = np.where(down, lowest, highest).astype(np.float64)
            far = np.where(down == (near < 0), near * self.stretch, near / self.stretch)
        return np.stack([near + rng.random(len(near)) * (far - near) for rng in view.generators()])


@dataclass(frozen=True, kw_only=True)
class FangKrum:
    """Against Krum: −λ·sign μ from all attackers, with the first λ of λ₀, λ₀/2, … that makes Krum choose it.

    λ₀ = √(least sum of an honest row's squared distances to its n − f − 2 nearest / ((n − 2f − 1)·d)) + maxᵢ ‖xᵢ‖ / √d,
    their bound, which no chosen λ exceeds. If none down to λ₀/2¹⁷ will do, that one is sent.
    """

    knowledge: ClassVar = ALL

    def on_updates(self, updates: Vector, view: View) -> Vector:
        """The update of every attacker alike, the −λ·sign μ that Krum chooses, in the place of its own."""
        return np.broadcast_to(view.once("row", lambda: _krum_chooses(view)), updates.shape)


def _krum_chooses(view: View) -> Vector:
    """The attackers' common update −λ·sign μ, with the first halving of λ that Krum ranks before honest rows."""
    rows, f = view.known, view.byzantine
    others, dimension = len(rows) - 1, rows.shape[1]
    near = min(max(1, view.asked - f - 2), others + f)  # some that were asked may have failed
    sign = np.sign(view.mean)
    sums = np.cumsum(np.sort(squares(rows), axis=1), axis=1)  # of so many nearest others: the first is itself, at 0
    own = np.array([(row * row).sum(dtype=np.float64) for row in rows])
    along = np.array([(row * sign).sum() for row in rows])
    size = sqrt(float(sums[:, min(near, others)].min()) / (max(1, view.asked - 2 * f - 1) * dimension))
    size += sqrt(float(own.max()) / dimension)
    copies = np.arange(max(0, near - others), min(f, near) + 1)  # of the crafted row among a row's nearest
    for _ in range(_HALVINGS):
        away = own + 2 * size * along + size * size * np.count_nonzero(sign)  # ‖xᵢ + λ·sign μ‖²
        honest = (sums[:, near - copies] + copies * away[:, None]).min(axis=1)
        if np.sort(away)[: max(0, near - f + 1)].sum() < honest.min():
            break
        size /= 2
    return -size * sign
