"""What is alike whatever the number of rounds: lattices at one tilt, their moments, drifts and transforms.

A transform of a lattice is taken once; its powers, at any numbers of rounds, are those of compositions
(`_convolution`). Every error is kept for one round and grows with the rounds. Proofs: docs/proofs/composition.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.fft import next_fast_len, rfft

from fedpriv._base.arrays import Vector
from fedpriv.curves._lattice import LARGEST, Lattice
from fedpriv.curves.atoms import ROUNDING
from fedpriv.curves.tilting import Window, log_moment
from fedpriv.errors import FedprivError

OUTSIDE = -26.0  # ln of the tilted mass that may lie beyond either end of the window
DRIFT = -24.0  # ln of the tilted chance that residuals of the lower bound add up to more than is taken off
UNSEEN = -69.0  # ln of a tilted mass whose rounding cannot matter

Rounds = Sequence[tuple[Lattice, int]]
Counts = Sequence[int]


class TooLarge(FedprivError):
    """More lattice points than a transform may have."""


class Placed(NamedTuple):
    """Where a composition's window lies."""

    first: int  # index of its first point
    size: int  # points
    outside: bool  # whether any loss lies beyond it


class Drift:
    """How much the sum of all residuals may move the loss, and ln of the chance (after tilting) that it is more.

    Upper: the largest residual, every time. Lower: the residuals' tilted mean, every time, less a Chernoff bound on
    the rest, from Σ over rounds of ln E[e^{θ·loss − λ(r − mean)}], at a few λ that suit the counts it is made with.
    """

    def __init__(self, rounds: Rounds, tilt: float, sign: int) -> None:
        self._sign, self._lattices = sign, [one for one, _ in rounds]
        self._mean, self._worst = np.zeros(len(rounds)), np.zeros(len(rounds))
        variance, rest = 0.0, []
        for at, (one, n) in enumerate(rounds):
            if sign > 0 or not one.residual.any():
                continue
            log_weight = tilt * one.loss + one.log_mass - log_moment(one.loss, one.log_mass, tilt)
            weight = np.exp(log_weight)
            self._mean[at] = float((weight * one.residual).sum())
            off = one.residual - self._mean[at]
            self._worst[at] = float(-off.min(initial=0.0))
            variance += n * float((weight * off**2).sum())
            rest.append((at, off, log_weight))
        self._rates = np.sqrt(-2 * DRIFT / max(variance, 1e-300)) * np.array([0.25, 0.5, 1.0, 2.0, 4.0])
        self._grown = np.zeros((len(rounds), self._rates.size))
        for at, off, log_weight in rest:
            self._grown[at] = [log_moment(off, log_weight, -rate) for rate in self._rates]

    def at(self, counts: Counts) -> tuple[float, float]:
        """(shift, ln chance): how far lattices move the loss of so many composed rounds, and how likely it is more."""
        slack = sum(2 * n * one.error for one, n in zip(self._lattices, counts, strict=True))
        if self._sign > 0:
            return sum(n * one.widest for one, n in zip(self._lattices, counts, strict=True)) + slack, -np.inf
        numbers = np.asarray(counts, dtype=float)
        shift, worst = float((numbers * self._mean).sum()) - slack, float((numbers * self._worst).sum())
        if worst <= 1e-13 * (1 + abs(shift)):
            return shift - worst, -np.inf
        grown = (numbers[:, None] * self._grown).sum(axis=0)
        return shift - min(worst, float((np.maximum(grown - DRIFT, 0.0) / self._rates).min())), DRIFT


@dataclass(frozen=True, eq=False)
class Factor:
    """One round of a lattice, tilted and transformed: a value for each coefficient, and what holds of them all."""

    log_size: Vector
    angle: Vector
    log_most: Vector  # ln of the largest that the coefficient may be, whatever was rounded
    log_share: Vector  # ln of the coefficient over its largest
    rounding: float  # relative error of one round's masses
    mean: float  # of the loss, tilted


class Transforms:
    """Lattices at one tilt, transformed for as many rounds as said or fewer; `sign` is +1 for an upper bound."""

    def __init__(self, rounds: Rounds, tilt: float, window: Window, sign: int) -> None:
        self.lattices, self.most = [one for one, _ in rounds], [n for _, n in rounds]
        self.tilt, self.sign, self.step = tilt, sign, rounds[0][0].step or 1.0
        self._up, self._down = window.up, window.down
        self._moments = np.array(
            [[log_moment(one.loss, one.log_mass, at) for at in (tilt, tilt + window.up, tilt - window.down)]
             for one in self.lattices]
        )  # fmt: skip
        self.drift = Drift(rounds, tilt, sign)
        self.size = int(next_fast_len(self.window(self.most).size, real=True))

    @property
    def transform_error(self) -> float:
        """Relative error, with room, of a lattice's Fourier transform in the Euclidean norm: every bound counts it."""
        return float(2 * ROUNDING * np.log2(self.size))

    @cached_property
    def factors(self) -> list[Factor]:
        """Each lattice's masses of one round, tilted, wrapped round the window, transformed: powers compose them."""
        found = []
        for one, moment in zip(self.lattices, self._moments[:, 0].tolist(), strict=True):
            log_mass = self.tilt * one.loss + one.log_mass - moment
            large = np.where(log_mass > UNSEEN, np.abs(self.tilt * one.loss) + np.abs(one.log_mass), 0.0)
            wrapped = np.bincount((one.index - one.index[0]) % self.size, np.exp(log_mass), minlength=self.size)
            mass = np.asarray(wrapped, dtype=float)
            values = rfft(mass)
            size = np.abs(values)
            most = size + self.transform_error * np.sqrt(self.size) * norm(mass)
            with np.errstate(divide="ignore"):
                log_size = np.log(size)
            log_share = np.log1p(size / most - 1 + 1e-16)
            rounding = 2 * one.error + 2 * ROUNDING * (1 + float(large.max(initial=0.0)))
            mean = float((np.exp(log_mass) * one.loss).sum())
            found.append(Factor(log_size, np.angle(values), np.log(most), log_share, rounding, mean))
        return found

    def log_total(self, counts: Counts) -> float:
        """K(θ) = Σ n ln E[e^{θ·loss}] of so many rounds: ln of what their tilted masses are divided by."""
        return float((np.asarray(counts) * self._moments[:, 0]).sum())

    def offset(self, counts: Counts) -> float:
        """The loss at the point of index 0 of the lattice of so many rounds, composed."""
        return sum(n * one.offset for one, n in zip(self.lattices, counts, strict=True))

    def window(self, counts: Counts) -> Placed:
        """The lattice points of so many rounds, composed, that hold all but e^OUTSIDE of the tilted mass an end."""
        pairs, offset = list(zip(self.lattices, counts, strict=True)), self.offset(counts)
        smallest, largest = (sum(n * int(one.index[end]) for one, n in pairs) for end in (0, -1))
        here, above, below = (np.asarray(counts)[:, None] * self._moments).sum(axis=0)
        high, low = (above - here - OUTSIDE) / self._up, -(below - here - OUTSIDE) / self._down
        first = max(int(np.floor((low - offset) / self.step)) - 1, smallest)
        last = min(int(np.ceil((high - offset) / self.step)) + 1, largest)
        if max(abs(first), abs(last)) >= 1 << 62:
            raise TooLarge("the composed losses lie beyond whole numbers of 64 bits")
        size = max(last - first + 1, 2)
        if size > 4 * LARGEST:
            raise TooLarge(f"this composition needs {size:.3g} lattice points, more than {4 * LARGEST}")
        return Placed(first, size, largest - smallest + 1 > size)


def reach(rounds: Rounds, tilt: float) -> float:
    """How far a composition's tilted bulk reaches, less a lower bound's drift: of two lattices the larger is better."""
    shift, _ = Drift(rounds, tilt, -1).at([n for _, n in rounds])
    return sum(n * log_moment(one.loss, one.log_mass, tilt) for one, n in rounds) + tilt * shift


def norm(values: Vector) -> float:
    """The Euclidean norm of masses, for errors of transforms, by plain sums: BLAS would wake a second thread for it."""
    return float(np.sqrt(np.square(values).sum()))
