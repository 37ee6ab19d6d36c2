"""Filtering in many directions at once, by matrix multiplicative weights. [M] Algorithms 10, 13 and 15.

All that is asked of the records is their moments and, for each filtering, one histogram of scores. While the set does
not change, nothing is asked again: the paper's fresh noise on the same matrix buys nothing.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fedpriv._base.arrays import Vector
from fedpriv.estimation._course import State, asked, ended, enough_left, recentred, tail, too_few
from fedpriv.estimation._curator import Curator
from fedpriv.estimation._filters import Filter
from fedpriv.estimation._threshold import edges, threshold
from fedpriv.estimation.plan import Outcome, Plan

MOST_WEIGHINGS = 10_000  # of one set; by then U has long become one direction
WORTH = 5.5  # a filtering needs ψ > λ/5.5. [M] Algorithm 10


class Weighing(NamedTuple):
    """The constants of a course."""

    corruption: float  # α
    level: float  # λ at which the mean is good
    honest: float  # the variance taken off: 1 where the covariance is known, 0 where it is only bounded
    shrunk: float  # an epoch ends when λ has come down by this factor
    sharpness: float  # the weights are exp(sharpness/λ · Σ(covariance − honest·I))
    steps: int  # filterings, T₁·T₂
    recentrings: int  # times that the filters are applied anew about the mean they led to


def weighted_filtering(curator: Curator, plan: Plan, rule: Weighing) -> Outcome:
    """The course of PRIME and PRIME-HT: filterings in epochs until λ is at most `level`, or none is left."""
    state = asked(curator, (), rule.honest)
    nothing: Vector = np.zeros((plan.d, plan.d))
    started, total = state.largest, nothing
    while True:
        if not enough_left(state, plan, rule.corruption):
            return too_few(state, plan)
        if state.largest <= rule.level or len(state.filters) == rule.steps:
            break
        if state.largest <= rule.shrunk * started:
            started, total = state.largest, nothing
        weights, total = weighed(state, total, started, rule)
        found = next_filter(curator, plan, state, weights, rule)
        if found is None:
            return Outcome(None, "threshold: no cut takes enough of the scores away, the histogram being too noisy")
        state = asked(curator, (*state.filters, found), rule.honest)
    for _ in range(rule.recentrings):
        state = recentred(curator, state, plan, rule.corruption, rule.level, rule.honest)
    return ended(state, rule.level)


def weighed(state: State, total: Vector, started: float, rule: Weighing) -> tuple[Vector, Vector]:
    """The weights U of PRIME's next filter, and the sum they come from, to which covariances are added.

    They are added until ⟨covariance − honest·I, U⟩ is worth a filtering.
    """
    over = state.moments.covariance - rule.honest * np.eye(len(total))
    for _ in range(MOST_WEIGHINGS):
        total = total + over
        weights = normalised_exponential(rule.sharpness / started * total)
        if np.vdot(over, weights) > state.largest / WORTH:
            break
    return weights, total


def normalised_exponential(matrix: Vector) -> Vector:
    """exp(A)/tr exp(A), the weights that PRIME's filters score records by, by one eigendecomposition.

    >>> normalised_exponential(np.diag([1000.0, 1000.0])).tolist()
    [[0.5, 0.0], [0.0, 0.5]]
    """
    values, vectors = np.linalg.eigh(matrix)
    masses = np.exp(values - values[-1])
    return np.asarray((vectors * (masses / masses.sum())) @ vectors.T)


def next_filter(curator: Curator, plan: Plan, state: State, weights: Vector, rule: Weighing) -> Filter | None:
    """PRIME's next filter, of cut ρ·Z: ρ from the noisy histogram of scores, Z uniform; None where none shows."""
    middle = state.moments.mean
    score = Filter(shape=weights, centre=middle, cut=0.0, most=tail(plan, rule.corruption))
    lower = edges((curator.radius + float(np.linalg.norm(middle))) ** 2)
    noisy = curator.scores(state.filters, score, lower)
    excess = float(np.vdot(state.moments.covariance - rule.honest * np.eye(plan.d), weights))
    cut = threshold(noisy, lower, state.moments.size, excess)
    if cut is None:
        return None
    return Filter(shape=weights, centre=middle, cut=cut * float(curator.rng.random()), most=score.most)
