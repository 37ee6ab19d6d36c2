"""Where the bulk of a composition lies once it is tilted by e^{θ·loss}.

K(θ) = Σ n·ln E_Q[e^{θ·loss}] is the only function needed: by Chernoff δ(ε) ≤ e^{K(θ) − θε}, the best θ solves
K′(θ) = ε, and K itself bounds the tilted mass outside any window.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from fedpriv.arrays import Vector
from fedpriv.atoms import Atoms

GROUPS = 1024
STEEPEST = 1e3  # θ at most this many times one over the spread of the losses


class Window(NamedTuple):
    """The stretch that holds all but e^OUTSIDE of the tilted mass on either side, and the tilts that show it."""

    low: float
    high: float
    up: float
    down: float


def log_moment(loss: Vector, log_mass: Vector, tilt: float) -> float:
    """ln Σ mass·e^{tilt·loss}, without overflow."""
    exponent = tilt * loss + log_mass
    largest = exponent.max(initial=-np.inf)
    if largest == -np.inf:
        return float("-inf")
    return float(largest + np.log(np.exp(exponent - largest).sum()))


def grouped(pair: Atoms) -> tuple[Vector, Vector]:
    """Losses and log masses of at most a thousand groups of neighbouring outcomes."""
    every = -(-pair.loss.size // GROUPS)
    starts = np.arange(0, pair.loss.size, every)
    with np.errstate(divide="ignore"):
        return pair.loss[starts], np.log(np.add.reduceat(pair.q, starts))


@dataclass(frozen=True)
class Sketch:
    """A composition in outline: enough to choose a tilt and a window, proof of nothing."""

    rounds: Sequence[tuple[Vector, Vector, int]]  # losses, log masses, count

    @staticmethod
    def of(pairs: Sequence[tuple[Atoms, int]]) -> Sketch:
        """The outline of pairs, each with its count."""
        return Sketch([(*grouped(pair.finite), count) for pair, count in pairs])

    def log_moment(self, tilt: float) -> float:
        """K(θ)."""
        return sum(n * log_moment(loss, log_mass, tilt) for loss, log_mass, n in self.rounds)

    def mean_and_variance(self, tilt: float) -> tuple[float, float]:
        """K′(θ) and K″(θ): mean and variance of the tilted composition."""
        mean = variance = 0.0
        for loss, log_mass, n in self.rounds:
            weight = np.exp(tilt * loss + log_mass - log_moment(loss, log_mass, tilt))
            centre = float(weight @ loss)
            mean, variance = mean + n * centre, variance + n * float(weight @ (loss - centre) ** 2)
        return mean, variance

    def tilt_for_epsilon(self, epsilon: float) -> float:
        """θ ≥ 0 with K′(θ) = ε."""
        return self._solve(lambda tilt: self.mean_and_variance(tilt)[0] - epsilon)

    def tilt_for_delta(self, delta: float) -> float:
        """θ ≥ 0 that minimises (K(θ) − ln δ)/θ, the ε of Chernoff's bound: θ·K′(θ) − K(θ) + ln δ = 0."""
        aim = np.log(max(delta, 1e-320))
        return self._solve(lambda tilt: tilt * self.mean_and_variance(tilt)[0] - self.log_moment(tilt) + aim)

    def _solve(self, rising: Callable[[float], float]) -> float:
        """The zero of a rising function on [0, steepest], by bisection in ln θ."""
        spread = max(np.sqrt(self.mean_and_variance(0.0)[1] / max(sum(n for *_, n in self.rounds), 1)), 1e-12)
        if rising(0.0) >= 0:
            return 0.0
        low, high = np.log(1e-9 / spread), np.log(STEEPEST / spread)
        for _ in range(44):
            middle = (low + high) / 2
            low, high = (low, middle) if rising(float(np.exp(middle))) > 0 else (middle, high)
        return float(np.exp(low))

    def window(self, tilt: float, outside: float) -> Window:
        """The window by Chernoff's bound at the best of a few further tilts."""
        here = self.log_moment(tilt)
        _, variance = self.mean_and_variance(tilt)
        reach = np.sqrt(-2 * outside / max(variance, 1e-24)) * 2.0 ** np.arange(-5, 5)
        high = [(self.log_moment(tilt + more) - here - outside) / more for more in reach]
        low = [-(self.log_moment(tilt - more) - here - outside) / more for more in reach]
        best_high, best_low = int(np.argmin(high)), int(np.argmax(low))
        return Window(low[best_low], high[best_high], float(reach[best_high]), float(reach[best_low]))
