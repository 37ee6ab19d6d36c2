"""What counted guesses prove of a mechanism: bounds that hold with a stated confidence, whatever made the guesses.

A trial is a fair coin, a release of x or x′ by it, and a score: large where the release looks like x's. Trials are
independent. What each number proves is in docs/audit.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import exp, log
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr, betaincinv, ndtr, ndtri

from fedpriv._base.arrays import Vector
from fedpriv.curves.tradeoff import Tradeoff
from fedpriv.errors import FedprivError, probability
from fedpriv.randomness.streams import stream

CANDIDATES = 400  # thresholds looked at on the half that chooses one
SET_ASIDE = 0.1  # of what may go wrong in route (b): that more outcomes than expected were revealed


def at_least(right: Any, trials: Any, confidence: float) -> Any:
    """The Clopper–Pearson lower bound of a probability, from so many right of so many trials, with that confidence.

    >>> round(float(at_least(90, 100, 0.95)), 4)
    0.8363
    """
    right, trials = np.asarray(right, float), np.asarray(trials, float)
    found = betaincinv(np.maximum(right, 1), trials - right + 1, 1 - confidence)
    return np.where(right > 0, found, 0.0)


def at_most(right: Any, trials: Any, confidence: float) -> Any:
    """The Clopper–Pearson upper bound of a probability, from so many right of so many trials, with that confidence."""
    return 1 - at_least(np.asarray(trials) - right, trials, confidence)


def mu_of_share(share: float) -> float:
    """The μ at which the best guesser of a Gaussian pair is right so often, Φ(μ/2): for an audit's share of coins.

    >>> round(mu_of_share(0.8413447460685429), 9)
    2.0
    """
    return max(2 * float(ndtri(share)), 0.0)


class Point(NamedTuple):
    """A threshold judged on trials that did not choose it: both rates on the safe side, jointly with the confidence."""

    threshold: float  # a score
    true_positive: float  # TPR, at least
    false_positive: float  # FPR, at most

    @property
    def mu(self) -> float:
        """The μ that an audit's rates at a threshold show: a mechanism with them is μ-GDP for no smaller one."""
        found = float(ndtri(self.true_positive) - ndtri(self.false_positive))
        return max(found, 0.0) if np.isfinite(found) else 0.0

    def epsilon(self, delta: float) -> float:
        """The ε at δ that an audit's rates at a threshold show: a mechanism with them is private for no smaller one."""
        return log(ratio) if (ratio := (self.true_positive - delta) / self.false_positive) > 1 else 0.0


@dataclass(frozen=True, eq=False)
class Trials:
    """Who held x, and the score of each release.

    >>> trials = Trials(held=np.arange(1000) % 2 == 0, scores=np.where(np.arange(1000) % 2 == 0, 1.0, -1.0))
    >>> trials.right, round(trials.mu(0.99), 2)
    (1000, 5.21)
    """

    held: NDArray[np.bool_]  # whether x was released, else x′
    scores: Vector  # large where the release looks like x's

    def __post_init__(self) -> None:
        """Refuse trials of an audit that are not a coin and a number each."""
        if self.held.shape != self.scores.shape or self.held.ndim != 1 or np.isnan(self.scores).any():
            raise FedprivError(f"trials are a coin and a number each, got {self.held.shape} and {self.scores.shape}")

    def __len__(self) -> int:
        """How many trials the audit has."""
        return len(self.held)

    @cached_property
    def right(self) -> int:
        """How many of the audit's coins its scores' signs tell rightly; a score of zero tells by a coin of its own."""
        tossed = stream(0, "audit ties").integers(0, 2, len(self)).astype(bool)
        return int((np.where(self.scores == 0, tossed, self.scores > 0) == self.held).sum())

    def share(self, confidence: float) -> float:
        """The share of coins that the audit's attacker tells rightly, at least, with that confidence."""
        return float(at_least(self.right, len(self), confidence))

    def mu(self, confidence: float) -> float:
        """The μ that counting right guesses shows with that confidence: the mechanism is μ-GDP for no smaller one."""
        return mu_of_share(self.share(confidence))

    @property
    def halves(self) -> tuple[Trials, Trials]:
        """The audit's trials in two, every other one: those that choose a threshold, and those that it is judged on."""
        return Trials(self.held[::2], self.scores[::2]), Trials(self.held[1::2], self.scores[1::2])

    def rates(self, thresholds: Vector) -> tuple[NDArray[Any], NDArray[Any], int, int]:
        """How many trials with x, and how many without, score above each threshold; then how many there are of each."""
        yes, no = np.sort(self.scores[self.held]), np.sort(self.scores[~self.held])
        above = [own.size - np.searchsorted(own, thresholds, side="right") for own in (yes, no)]
        return above[0], above[1], yes.size, no.size

    def points(self, thresholds: Vector, confidence: float) -> tuple[Vector, Vector]:
        """At each threshold the rate of true positives, at least, and of false ones, at most, with that confidence."""
        hits, alarms, yes, no = self.rates(thresholds)
        each = 1 - (1 - confidence) / 2
        if not (yes and no):
            return np.zeros(len(thresholds)), np.ones(len(thresholds))
        return at_least(hits, yes, each), at_most(alarms, no, each)

    @property
    def thresholds(self) -> Vector:
        """The scores that are tried as thresholds on the half that chooses: quantiles, closer at either end."""
        tail = np.geomspace(1 / max(len(self), 2), 0.5, CANDIDATES // 2)
        return np.unique(np.quantile(self.scores, np.concatenate([tail, 1 - tail]), method="lower"))

    @property
    def turned(self) -> Trials:
        """The audit's trials with x and x′ in each other's place, to count from the other side."""
        return Trials(~self.held, -self.scores)


def by_threshold(trials: Trials, confidence: float) -> Point:
    """The rates at the threshold where half of an audit's trials shows the largest μ, judged on the other half."""
    choosing, judging = trials.halves
    candidates = choosing.thresholds
    true, false = choosing.points(candidates, confidence)
    with np.errstate(invalid="ignore"):
        found = np.nan_to_num(ndtri(true) - ndtri(false), nan=-np.inf, posinf=-np.inf)
    return _judged(judging, float(candidates[int(np.argmax(found))]), confidence)


def epsilon_by_threshold(trials: Trials, delta: float, confidence: float) -> float:
    """Lower bound of ε at δ from an audit, route (a): ln((TPR − δ)/FPR) at a threshold that half the trials chose.

    For x against x′ or the other way round: one half chooses which, and where.
    """
    best = (-1.0, 0, 0.0)
    for side, own in enumerate((trials, trials.turned)):
        choosing = own.halves[0]
        true, false = choosing.points(choosing.thresholds, confidence)
        ratio = (true - delta) / false
        place = int(np.argmax(ratio))
        best = max(best, (float(ratio[place]), side, float(choosing.thresholds[place])))
    _, side, threshold = best
    judging = (trials, trials.turned)[side].halves[1]
    return _judged(judging, threshold, confidence).epsilon(delta)


def epsilon_by_guesses(trials: Trials, delta: float, confidence: float) -> float:
    """Lower bound of ε at δ from an audit, route (b): guesses only where a score is far from zero, counted.

    Steinke, Nasr, Jagielski 2023. How far is chosen by one half of the trials.

    An (ε, δ)-private pair is an ε-private one with an outcome of probability δ that reveals all: so many guesses are
    set aside as there may have been of these, and the others are right with a chance of at most e^ε/(1 + e^ε) each.
    """
    choosing, judging = trials.halves
    sizes = np.unique(np.quantile(np.abs(choosing.scores), 1 - np.geomspace(1 / max(len(choosing), 2), 1, 100)))
    found = [_of_guesses(choosing, size, delta, confidence) for size in sizes]
    return _of_guesses(judging, float(sizes[int(np.argmax(found))]), delta, confidence)


def _of_guesses(trials: Trials, size: float, delta: float, confidence: float) -> float:
    """Lower bound of ε at δ from the trials whose scores are at least `size` from zero, each a guess of its coin."""
    guessed = (np.abs(trials.scores) >= size) & (trials.scores != 0)
    right = int(((trials.scores > 0) == trials.held)[guessed].sum())
    revealed = 0  # Bin(n, δ) passes it with no larger probability than is set aside for that
    while 1 - float(bdtr(revealed, len(trials), delta)) > (1 - confidence) * SET_ASIDE:
        revealed += 1
    right, guesses = max(right - revealed, 0), max(int(guessed.sum()) - revealed, 0)
    share = float(at_least(right, guesses, 1 - (1 - confidence) * (1 - SET_ASIDE))) if guesses else 0.0
    return log(share / (1 - share)) if share > 0.5 else 0.0


def _judged(trials: Trials, threshold: float, confidence: float) -> Point:
    """The rates of true and false positives at a threshold, on trials of an audit that did not choose it."""
    true, false = trials.points(np.array([threshold]), confidence)
    return Point(threshold, float(true[0]), float(false[0]))


def epsilon_lower(trials: Trials, delta: float, confidence: float) -> float:
    """The ε that an audit shows at δ, whatever the curve's shape: the better of two routes, half the error each."""
    probability(delta=delta)
    each = 1 - (1 - confidence) / 2
    return max(epsilon_by_threshold(trials, delta, each), epsilon_by_guesses(trials, delta, each))


def epsilon_of_shape(mu: float, delta: float) -> float:
    """ε(δ) of the Gaussian curve of an audit's μ: a lower bound only for a mechanism that has that shape."""
    return Tradeoff.gaussian(mu).epsilon(delta) if mu > 0 else 0.0


def mu_of_epsilon(epsilon: float, delta: float) -> float:
    """The μ at which the Gaussian curve costs ε at δ: how an audit shows a certified (ε, δ) beside its own μ.

    >>> round(mu_of_epsilon(8.0, 1e-5), 6)
    1.666031
    """
    low, high = 0.0, 1.0
    while _gaussian_delta(high, epsilon) < delta:
        high *= 2
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if _gaussian_delta(middle, epsilon) < delta else (low, middle)
    return low


def _gaussian_delta(mu: float, epsilon: float) -> float:
    """δ(ε) of the Gaussian curve of μ, for the search of `mu_of_epsilon`."""
    return float(ndtr(mu / 2 - epsilon / mu) - exp(min(epsilon, 700.0)) * ndtr(-mu / 2 - epsilon / mu))
