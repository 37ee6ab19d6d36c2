"""Where the bulk of a composition lies once it is tilted by e^{θ·loss}.

K(θ) = Σ n·ln E_Q[e^{θ·loss}] is the only function needed: by Chernoff δ(ε) ≤ e^{K(θ) − θε}, the best θ solves
K′(θ) = ε, and K itself bounds the tilted mass outside any window.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.special import erfcx

from fedpriv._base.arrays import Vector
from fedpriv.curves.atoms import Atoms

GROUPS = 1024  # of neighbouring outcomes, at most, that a sketch keeps of a pair
SURE = 0.1  # a relative change of K″ between tilts that is as good as none
RUNGS = 44  # tilts of a ladder, each 1.6 times the one before: √rounds from 1 to 1e5, δ from .1 to 1e-300
STEEPEST = 1e3  # θ at most this many times one over the spread of the losses


class Window(NamedTuple):
    """The stretch that holds all but e^OUTSIDE of the tilted mass on either side, and the tilts that show it."""

    low: float  # losses at its ends
    high: float
    up: float  # added to the tilt, what shows how little lies above `high`
    down: float  # taken off the tilt, what shows how little lies below `low`


def log_moment(loss: Vector, log_mass: Vector, tilt: float) -> float:
    """ln Σ mass·e^{tilt·loss} of a pair's outcomes, without overflow: the K(θ) that tilts and windows rest on."""
    exponent = tilt * loss + log_mass
    largest = exponent.max(initial=-np.inf)
    if largest == -np.inf:
        return float("-inf")
    return float(largest + np.log(np.exp(exponent - largest).sum()))


def grouped_losses(pair: Atoms) -> tuple[Vector, Vector]:
    """Losses and log masses of a pair, in at most a thousand groups of neighbouring outcomes, for a sketch of it."""
    every = -(-pair.loss.size // GROUPS)
    starts = np.arange(0, pair.loss.size, every)
    with np.errstate(divide="ignore"):
        return pair.loss[starts], np.log(np.add.reduceat(pair.q, starts))


class Estimate(NamedTuple):
    """About what ε(δ) is, the tilt that shows it, and how much K″ changes around it: 0 where the estimate is sure."""

    epsilon: float
    tilt: float
    doubt: float  # |ln| of the ratio of K″ on either side


class Ladder(NamedTuple):
    """K and its two derivatives on a ladder of tilts, of one repetition: ε after any number of them by saddle point."""

    tilt: Vector
    total: Vector  # K(θ)
    mean: Vector  # K′(θ)
    variance: Vector  # K″(θ)

    def estimate(self, times: float, delta: float) -> Estimate:
        """About what ε(δ) is after so many repetitions, for `Repeated` to choose by: proof of nothing.

        With X ~ N(0, s²) for what is left of the tilted loss, δ(K′) = e^{K − θK′}·E[e^{−θX}(1 − e^{−X}); X > 0].
        """
        spread = np.sqrt(times * self.variance / 2)
        with np.errstate(divide="ignore"):
            left = np.log((erfcx(self.tilt * spread) - erfcx((1 + self.tilt) * spread)) / 2)
        depth = np.maximum.accumulate(np.sqrt(np.maximum(times * (self.tilt * self.mean - self.total) - left, 0.0)))
        aim = np.sqrt(-np.log(delta))
        at = min(max(int(np.searchsorted(depth, aim)), 1), RUNGS - 2)
        doubt = abs(float(np.log(max(self.variance[at + 1], 1e-300) / max(self.variance[at - 1], 1e-300))))
        found = max(float(np.interp(aim, depth, times * self.mean)), 0.0)
        return Estimate(found, float(np.interp(aim, depth, self.tilt)), doubt if doubt > SURE else 0.0)


@dataclass(frozen=True)
class Sketch:
    """A composition in outline: enough to choose a tilt and a window, proof of nothing."""

    rounds: Sequence[tuple[Vector, Vector, int]]  # losses, log masses, count

    @staticmethod
    def of(pairs: Sequence[tuple[Atoms, int]]) -> Sketch:
        """The outline of a composition, from its finite pairs and how often each is released."""
        return Sketch([(*grouped_losses(pair.finite), count) for pair, count in pairs])

    def log_moment(self, tilt: float) -> float:
        """K(θ) = Σ n·ln E_Q[e^{θ·loss}] of a composition's outline: Chernoff's bound, and so its window, needs it."""
        return sum(n * log_moment(loss, log_mass, tilt) for loss, log_mass, n in self.rounds)

    def mean_and_variance(self, tilt: float) -> tuple[float, float]:
        """K′(θ) and K″(θ): mean and variance of the tilted composition."""
        mean = variance = 0.0
        for loss, log_mass, n in self.rounds:
            weight = np.exp(tilt * loss + log_mass - log_moment(loss, log_mass, tilt))
            centre = float((weight * loss).sum())
            mean, variance = mean + n * centre, variance + n * float((weight * (loss - centre) ** 2).sum())
        return mean, variance

    @cached_property
    def ladder(self) -> Ladder:
        """K, K′ and K″ of an outline once, for tilts around one over the losses' spread: ε is estimated by them."""
        spread = max(np.sqrt(self.mean_and_variance(0.0)[1]), 1e-12)
        tilt = 1e-6 / spread * 1.6 ** np.arange(RUNGS)
        total, mean, variance = np.zeros((3, RUNGS))
        for loss, log_mass, n in self.rounds:
            exponent = tilt[:, None] * loss + log_mass
            largest = exponent.max(axis=1, keepdims=True)
            weight = np.exp(exponent - largest)
            mass = weight.sum(axis=1)
            centre = (weight * loss).sum(axis=1) / mass
            total += n * (largest[:, 0] + np.log(mass))
            mean += n * centre
            variance += n * (weight * (loss - centre[:, None]) ** 2).sum(axis=1) / mass
        return Ladder(tilt, total, mean, variance)

    def tilt_for_epsilon(self, epsilon: float) -> float:
        """The tilt θ ≥ 0 with K′(θ) = ε, which brings a composition's bulk to the ε that δ is asked at."""
        return self._solve(lambda tilt: self.mean_and_variance(tilt)[0] - epsilon)

    def tilt_for_delta(self, delta: float) -> float:
        """The tilt θ ≥ 0 at which a composition's ε(δ) is looked for, the best in Chernoff's bound.

        It minimises (K(θ) − ln δ)/θ: θ·K′(θ) − K(θ) + ln δ = 0.
        """
        aim = np.log(max(delta, 1e-320))
        return self._solve(lambda tilt: tilt * self.mean_and_variance(tilt)[0] - self.log_moment(tilt) + aim)

    def _solve(self, rising: Callable[[float], float]) -> float:
        """The tilt in [0, steepest] at which a rising function passes 0, by bisection in ln θ."""
        spread = max(np.sqrt(self.mean_and_variance(0.0)[1] / max(sum(n for *_, n in self.rounds), 1)), 1e-12)
        if rising(0.0) >= 0:
            return 0.0
        low, high = np.log(1e-9 / spread), np.log(STEEPEST / spread)
        for _ in range(24):
            middle = (low + high) / 2
            low, high = (low, middle) if rising(float(np.exp(middle))) > 0 else (middle, high)
        return float(np.exp(low))

    def window(self, tilt: float, outside: float) -> Window:
        """The losses of a tilted composition between ends with e^outside of mass beyond, by Chernoff's bound.

        The bound is taken at the best of a few further tilts.
        """
        here = self.log_moment(tilt)
        _, variance = self.mean_and_variance(tilt)
        reach = np.sqrt(-2 * outside / max(variance, 1e-24)) * 2.0 ** np.arange(-5, 5)
        high = [(self.log_moment(tilt + more) - here - outside) / more for more in reach]
        low = [-(self.log_moment(tilt - more) - here - outside) / more for more in reach]
        best_high, best_low = int(np.argmin(high)), int(np.argmax(low))
        return Window(low[best_low], high[best_high], float(reach[best_high]), float(reach[best_low]))
