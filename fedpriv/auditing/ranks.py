"""All of an audit's scores in one number: normal scores of their ranks, beside simulated audits of Gaussian pairs.

Who holds x should score higher. Give the r-th smallest of n scores, equal ones in an order by coins, the weight
Φ⁻¹((r − ½)/n), and let W be the sum over those that held x. Any mechanism that is no worse than a curve has a W that is
stochastically no larger than that of the curve itself (docs/audit.md has the proof), and the curve's can be drawn. So
among so many simulated audits, W is one of the k largest with probability k/(so many and one) at most: no law is
approximated. Counting right guesses throws away how sure each was; this keeps it, as a fifth fewer deviations show.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from math import ceil
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from fedpriv._base.arrays import Vector
from fedpriv._base.compiled import compiled
from fedpriv.auditing.statistic import Trials
from fedpriv.errors import FedprivError
from fedpriv.randomness.streams import stream

DRAWS = 499  # simulated audits, at least
MOST_DRAWS = 20_000  # simulated audits, at most: where more confidence is asked for, right guesses are counted
LARGEST = 16.0  # μ that is looked for
SLACK = 1e-12  # of the sum of all weights' sizes
HALVINGS = 20  # of the range in which a shift is looked for


class Lines(NamedTuple):
    """A bound of true positives by false ones: no attacker has more than min(intercept + slope · FPR, 1)."""

    intercepts: Vector  # one a line
    slopes: Vector  # of true positives over false ones, one a line

    def false_positives(self, true: Vector) -> Vector:
        """The fewest false positives, one for each rate of true ones, that a certificate's lines allow an attacker."""
        found = ((true[:, None] - self.intercepts) / self.slopes).max(axis=1)
        return np.asarray(np.clip(found, 0.0, 1.0))


class Shown(NamedTuple):
    """The μ that ranks show at least, and what they would show at the most that a certificate allows them."""

    mu: float
    allowed: float  # a μ


def can_be_confident(confidence: float) -> bool:
    """Whether an audit can have so much confidence from a number of simulated audits that does not take for ever."""
    return 1 / (1 - confidence) <= MOST_DRAWS


@dataclass(frozen=True, eq=False)
class Ranks:
    """The ranks of an audit's scores.

    >>> held = np.arange(2000) % 2 == 0
    >>> shown = Ranks(Trials(held, stream(1, "doc").normal(held * 1.0))).shown(0.99)
    >>> 0.8 < shown.mu < 1.0
    True
    """

    trials: Trials  # who held x, and the score of each release

    @cached_property
    def weights(self) -> Vector:
        """The weight of each rank in an audit's statistic W, its normal score; the smallest score's first."""
        many = len(self.trials)
        return np.asarray(ndtri((np.arange(many) + 0.5) / many))

    @cached_property
    def _seed(self) -> int:
        """The seed of the simulated audits, from the canaries' coins: nothing that was released chooses it."""
        return int.from_bytes(blake2b(np.packbits(self.trials.held).tobytes(), digest_size=8).digest())

    @cached_property
    def score(self) -> float:
        """The audit's statistic W: weights of the ranks of trials that held x; equal scores in an order by coins.

        Rounded down by more than sums of the same weights in another order may differ: that shows a little less.
        """
        coins = stream(self._seed, "audit ties").random(len(self.trials))
        held = self.trials.held[np.lexsort((coins, self.trials.scores))]
        return float(self.weights[held].sum()) - SLACK * float(np.abs(self.weights).sum())

    def mu(self, confidence: float) -> float:
        """The μ that an audit shows of its mechanism with that confidence: it is μ-GDP for no smaller one."""
        return self.shown(confidence).mu

    def p_value(self, mu: float) -> float:
        """The chance, at most, that an audit of a μ-GDP mechanism has a W as large as this: exact over its draws."""
        if not self._both:
            return 1.0
        found = sum(_score(no, yes, mu, self.weights) >= self.score for no, yes in self._drawn(DRAWS))
        return (1 + found) / (DRAWS + 1)

    def largest(self, mu: float, confidence: float) -> float:
        """The largest W with which an audit does not reject μ: the canaries' coins decide it, whatever the scores."""
        draws, place = _place(confidence)
        found = sorted(_score(no, yes, mu, self.weights) for no, yes in self._drawn(draws))
        return float(found[-1 - place])

    def shown(self, confidence: float, most: Lines | None = None) -> Shown:
        """The largest μ that an audit's ranks reject, beside the one at the largest W that a certificate's lines allow.

        μ is rejected where fewer than k of B simulated audits have as large a W, k/(B + 1) ≤ 1 − confidence. The W that
        is allowed is passed by a mechanism at the very curve with no larger probability than that.
        """
        if not can_be_confident(confidence):
            raise FedprivError(f"confidence = {confidence} takes more than {MOST_DRAWS:,} simulated audits")
        if not self._both:
            return Shown(0.0, LARGEST)
        draws, place = _place(confidence)
        largest = np.inf
        if most:
            rng, yes = stream(self._seed, "audit certified ranks"), self._held
            found = []
            for _ in range(draws):
                no = np.sort(rng.standard_normal(len(self.trials) - yes))
                with np.errstate(divide="ignore"):
                    own = np.sort(-ndtri(most.false_positives(rng.random(yes))))
                found.append(_score(no, own, 0.0, self.weights))
            largest = float(np.sort(found)[-1 - place])
        shifts = [
            [_least_shift(no, yes, self.weights, wanted) for wanted in (self.score, largest)]
            for no, yes in self._drawn(draws)
        ]
        mu, allowed = np.sort(np.array(shifts), axis=0)[place]
        return Shown(float(mu), float(allowed))

    @property
    def _both(self) -> bool:
        """Whether the audit has trials that held x and trials that did not: of one kind nothing is shown."""
        return 0 < self._held < len(self.trials)

    @property
    def _held(self) -> int:
        """How many of the audit's trials held x."""
        return int(self.trials.held.sum())

    def _drawn(self, draws: int) -> Iterator[tuple[Vector, Vector]]:
        """Simulated audits' N(0, 1) scores, sorted: of trials that did not hold x, and of those that did, before μ."""
        rng, yes = stream(self._seed, "audit ranks"), self._held
        for _ in range(draws):
            yield np.sort(rng.standard_normal(len(self.trials) - yes)), np.sort(rng.standard_normal(yes))


def _place(confidence: float) -> tuple[int, int]:
    """How many simulated audits a confidence takes, and how many of them may pass a W that still rejects."""
    draws = max(DRAWS, ceil(1 / (1 - confidence)) - 1)
    return draws, min(max(int((1 - confidence) * (draws + 1)), 1), draws) - 1


@compiled
def _score(no: Vector, yes: Vector, shift: float, weights: Vector) -> float:
    """The statistic W of a simulated audit: sorted scores without x and, moved by `shift`, with it; weights by rank."""
    total, below = 0.0, 0
    for place in range(len(yes)):
        own = yes[place] + shift
        while below < len(no) and no[below] < own:
            below += 1
        total += weights[place + below]
    return total


@compiled
def _least_shift(no: Vector, yes: Vector, weights: Vector, wanted: float) -> float:
    """The μ that a simulated audit's second row must be moved by for its W to be so large, rounded down."""
    low, high = 0.0, LARGEST
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        if _score(no, yes, middle, weights) >= wanted:
            high = middle
        else:
            low = middle
    return low
