"""A certificate for votes that are cast by lot: Theorem G of docs/proofs/votes.md, for any honest data of one mean."""

from __future__ import annotations

from collections.abc import Callable
from math import exp, sinh, sqrt

import numpy as np

from fedpriv._base.arrays import Vector
from fedpriv.mechanisms import Binomial, NoisySign, StochasticSign, Ternarize, Ternary
from fedpriv.mechanisms.abilities import trials_of
from fedpriv.tolerance.ballots import Ballot, Polled

CELLS = 1 << 10  # of the grid of inputs
BENT = 0.242  # no less than |Φ″| anywhere
RATIO = (sqrt(5) - 1) / 2
SLACK = 1e-13  # of an exponent, a client: more than its rounding
Known = Binomial | StochasticSign | NoisySign | Ternary | Ternarize  # whose probabilities bend as is said below
Exponent = Callable[[float], float]  # of a > 0


def least_bound(honest: int, of_honest: Exponent, attackers: int, of_attacker: Exponent) -> float:
    """P(wrong or tie) ≤ exp(N·ψ(a) + K·ψ′(a)), at the a that makes it least: any a is valid, and the sum is convex."""

    def total(log_a: float) -> float:
        """The exponent of Theorem G's bound at a tilt, of honest votes and attackers' together."""
        a = exp(log_a)
        return honest * of_honest(a) + attackers * of_attacker(a) + SLACK * (honest + attackers) * (1 + a)

    low, high = -14.0, 3.0
    for _ in range(40):
        left, right = high - RATIO * (high - low), low + RATIO * (high - low)
        low, high = (low, right) if total(left) <= total(right) else (left, high)
    return exp(min(0.0, total((low + high) / 2)))


def exponent_of(ballot: Ballot) -> Exponent:
    """ψ_a = ln E e^{−a·v} of a ballot, by a: v is how far each trial's steps are past their middle, ±1 at the ends."""
    values, law = np.linspace(-1, 1, len(ballot.law)), np.array([ballot.law])
    return lambda a: float(_exponents(law, values, a, ballot.trials, ballot.sampling)[0])


def enveloped_exponent(mechanism: Polled, mean: float, sampling: float) -> Exponent | None:
    """ψ̂_a, by a: no less than the mean of ψ_a over any inputs within the peak that have this mean.

    That is the concave envelope of ψ_a, which a line of any slope above ψ_a is above. It is looked for on a grid.
    Between two of its points e^ψ is convex, so ψ is no more than the logarithm of a straight line, and that is above
    its chord by no more than (ψ_i − ψ_{i+1})²/8 (Hoeffding's lemma); where Φ bends it down, by 2p_s·sinh(a)·|Φ″|·h²/8
    at most before the logarithm, h the grid's step by s. None for a law that may bend in any way.
    """
    if not isinstance(mechanism, Known):
        return None
    at = np.linspace(-mechanism.peak, mechanism.peak, CELLS + 1)
    trials = trials_of(mechanism)  # of which each has, at each input, this law:
    if isinstance(mechanism, Ternary | Ternarize):
        plus, minus = mechanism.plus(at), mechanism.minus(at)
        laws = np.stack([minus, 1 - plus - minus, plus], axis=1)
    else:
        right = mechanism.chance(at)
        laws = np.stack([1 - right, right], axis=1)
    values = np.linspace(-1, 1, laws.shape[1])

    def exponent(a: float) -> float:
        """The concave envelope of a client's exponent at the honest mean, at a tilt, its grid's error added."""
        found = _exponents(laws, values, a, trials, sampling)
        error = float((np.diff(found) ** 2).max()) / 8
        if isinstance(mechanism, NoisySign):
            step = (at[1] - at[0]) / mechanism.noise
            error += 2 * sampling * sinh(a) * BENT * step**2 / 8 / exp(float(found.min()))
        return _line_above(at - mean, found) + error

    return exponent


def _exponents(laws: Vector, values: Vector, a: float, trials: int, sampling: float) -> Vector:
    """ψ_a of each law: ln(1 − p_s + p_s·h^M), h = E e^{−a·value}; a client's trials are there together, or none is."""
    sent = trials * (np.log(laws @ np.exp(-a * (values + 1))) + a)
    if sampling == 1:
        return np.asarray(sent)
    return np.asarray(np.logaddexp(np.log1p(-sampling), np.log(sampling) + sent))


def _line_above(away: Vector, y: Vector) -> float:
    """The least height at 0 of a line above all points, but for the slope's bisection: no line is lower than theirs."""
    slopes = np.diff(y) / np.diff(away)
    low, high = float(slopes.min()), float(slopes.max())
    best = np.inf
    for _ in range(60):
        slope = (low + high) / 2
        heights = y - slope * away
        place = int(heights.argmax())
        best = min(best, float(heights[place]))
        low, high = (slope, high) if away[place] > 0 else (low, slope)
    return best
