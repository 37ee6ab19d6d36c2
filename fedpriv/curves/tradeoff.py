"""One curve for every mechanism: the smallest type II error an attacker can have at each type I error.

T(P, Q)(α) = min {β of a test of P against Q with level α}. For finite P and Q: sort the outcomes by Q/P, largest first;
the running sums of P give α, one minus the running sums of Q give β, and T is the straight-line interpolation
([F] Theorem 1 without its monotonicity condition). A higher curve is a more private release.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, assert_never

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri

from fedpriv._base.arrays import Vector
from fedpriv.curves import _densities as densities
from fedpriv.curves import _replacing as replacing
from fedpriv.curves._densities import Density
from fedpriv.curves.atoms import Atoms
from fedpriv.curves.pair import (
    Enclosure,
    Pair,
    checked_distributions,
    error_rates,
    finite_above,
    finite_below,
    hull_of,
    smallest_epsilon,
    smallest_mu,
)  # fmt: skip
from fedpriv.errors import FedprivError, probability, real
from fedpriv.trust import Adjacency

LARGEST_MU = 1e100  # above, all is told apart as far as floats can say
Comparison = Literal["equal", "more private", "less private", "incomparable"]


@dataclass(frozen=True, eq=False, repr=False)
class Tradeoff:
    """A tradeoff curve. Made by `between`, `gaussian`, `laplace` or `pure`.

    >>> f = Tradeoff.between([0.6, 0.4], [0.4, 0.6])  # one vote, p = 0.6
    >>> round(f(0.1), 3), round(f.delta(0.0), 3), round(f.epsilon(0.0), 4)
    (0.85, 0.2, 0.4055)
    """

    pair: Pair  # P and Q, of which this is T(P, Q)

    def __repr__(self) -> str:
        if isinstance(self.pair, Atoms):
            return f"Tradeoff({self.pair.loss.size} outcomes)"
        if isinstance(self.pair, Enclosure):
            return f"Tradeoff(between two of {self.pair.spread.loss.size} outcomes)"
        return "Tradeoff(of densities)" if self.gaussian_mu is None else f"Tradeoff(Gaussian, mu={self.gaussian_mu:g})"

    @staticmethod
    def between(p: ArrayLike, q: ArrayLike) -> Tradeoff:
        """The curve T(P, Q) of two finite distributions over the same outcomes, in any order, zeros welcome.

        >>> Tradeoff.between([1, 0], [0, 1]).advantage  # disjoint: nothing is hidden
        1.0
        """
        return Tradeoff(Atoms.of_masses(*checked_distributions(p, q)))

    @staticmethod
    def gaussian(mu: float) -> Tradeoff:
        """The curve of Gaussian noise, N(0, 1) against N(μ, 1): G_μ(α) = Φ(Φ⁻¹(1−α) − μ).

        >>> round(Tradeoff.gaussian(1.0).epsilon(1e-5), 3)
        4.377
        """
        real(mu=mu)
        if not mu >= 0:
            raise FedprivError(f"mu must be at least 0, got {mu}")
        if mu > LARGEST_MU:  # no arithmetic tells these apart from giving everything away
            return Tradeoff.between([1.0, 0.0], [0.0, 1.0])
        return Tradeoff(densities.gaussian(float(mu))) if mu > 0 else Tradeoff.between([1.0], [1.0])

    @staticmethod
    def laplace(shift: float) -> Tradeoff:
        """The curve of Laplace noise of scale 1 moved by `shift`: the pure ε is the shift.

        >>> round(Tradeoff.laplace(0.5).epsilon(0.0), 3)
        0.5
        """
        real(shift=shift)
        if not shift >= 0:
            raise FedprivError(f"shift must be at least 0, got {shift}")
        return Tradeoff(densities.laplace(float(shift))) if shift > 0 else Tradeoff.between([1.0], [1.0])

    @staticmethod
    def gaussian_replaced(shift: float, rate: float) -> Tradeoff:
        """The curve of a Poisson-sampled sum with Gaussian noise of deviation 1, a record of norm `shift` made another.

        The worst two are c and −c, in any dimension; a record that is not drawn adds nothing. docs/proofs/replacing.md.

        >>> round(Tradeoff.gaussian_replaced(0.5, 0.01).delta(0.0), 6)
        0.003829
        """
        return _replaced(shift, rate, Tradeoff.gaussian, replacing.gaussian)

    @staticmethod
    def laplace_replaced(shift: float, rate: float) -> Tradeoff:
        """The curve of a Poisson-sampled sum with Laplace noise of scale 1, a record of ℓ1 norm `shift` made another.

        >>> round(Tradeoff.laplace_replaced(1.0, 0.2).epsilon(0.0), 6)  # ln((0.8 + 0.2e)/(0.8 + 0.2/e))
        0.430555
        """
        return _replaced(shift, rate, Tradeoff.laplace, replacing.laplace)

    @staticmethod
    def pure(epsilon: float, delta: float = 0.0) -> Tradeoff:
        """The curve of (ε, δ)-DP: max(0, 1 − δ − e^ε α, e^−ε (1 − δ − α)). [F] Lemma 1.

        >>> round(Tradeoff.pure(1.0, 0.1).delta(1.0), 12)
        0.1
        """
        probability(delta=delta)
        if not epsilon >= 0:
            raise FedprivError(f"epsilon must be at least 0, got {epsilon}")
        loss = np.array([np.inf, epsilon, -epsilon, -np.inf])
        log_rest = np.log1p(-delta) if delta < 1 else -np.inf
        log_delta = np.log(delta) if delta > 0 else -np.inf
        likely, unlikely = log_rest - np.log1p(np.exp(-epsilon)), log_rest - np.logaddexp(0.0, epsilon)
        log_q = np.array([log_delta, likely, unlikely, -np.inf])
        return Tradeoff(Atoms.sorted(log_q[::-1], log_q, loss))

    @property
    def above(self) -> Atoms:
        """A finite pair that gives away at least as much as this curve, the very pair where the curve is finite."""
        return finite_above(self.pair)

    @property
    def below(self) -> Atoms:
        """A finite pair that gives away no more than this curve, the very pair where the curve is finite."""
        return finite_below(self.pair)

    @property
    def largest_loss(self) -> float:
        """The pure ε of this curve in its direction, Q against P, or ∞."""
        return self.pair.largest_loss if isinstance(self.pair, Density) else self.above.largest_loss

    @property
    def gaussian_mu(self) -> float | None:
        """μ where the curve is exactly G_μ, else None: `compose` makes all such curves one."""
        return self.pair.gaussian if isinstance(self.pair, Density) else None

    @property
    def outline(self) -> Atoms:
        """A finite pair that shows where the losses' mass lies, for choosing tilts and windows: proof of nothing."""
        return self.pair.outline if isinstance(self.pair, Density) else self.above

    @property
    def symmetric(self) -> bool:
        """Whether the curve is its own inverse: a composition of such curves has one direction only."""
        return self.pair.symmetric

    @cached_property
    def inverse(self) -> Tradeoff:
        """T(Q, P), the curve of the other direction: type I error as a function of type II."""
        return self if self.symmetric else Tradeoff(self.pair.swapped)

    @cached_property
    def breakpoints(self) -> tuple[Vector, Vector]:
        """(α, β) at the corners of the finite curve, α rising: calling the curve interpolates between them."""
        atoms = self.above
        alpha = np.concatenate(([0.0], np.cumsum(atoms.p)))
        beta = np.concatenate((np.cumsum(atoms.q[::-1])[::-1], [0.0]))
        start = int(np.isposinf(atoms.loss).sum())  # outcomes P never gives are rejected at no cost
        return np.minimum(alpha[start:], 1.0), np.minimum(beta[start:], 1.0)

    def __call__(self, alpha: ArrayLike) -> Any:
        """The least type II error β of an attacker's test of level α: a number for a number, an array for an array."""
        levels = error_rates(alpha)
        flat, own = np.atleast_1d(levels), self.pair
        if not isinstance(own, Density):
            beta = np.interp(flat, *self.breakpoints)
        elif own.gaussian is not None:
            beta = ndtr(-ndtri(flat) - own.gaussian)
        else:
            x = own.where(lambda x: -own.p_above(x), -flat)
            beta = np.where(flat >= 1, 0.0, own.q_below(x))
        return float(beta[0]) if levels.ndim == 0 else beta

    def delta(self, epsilon: float) -> float:
        """δ(ε) = sup over sets of Q(S) − e^ε P(S), this direction only; the other one is `inverse.delta`.

        >>> ternary = Tradeoff.between([0.15, 0.5, 0.35], [0.35, 0.5, 0.15])
        >>> round(ternary.delta(np.log(2)), 12)
        0.05
        """
        if np.isnan(epsilon):
            raise FedprivError("epsilon must be a number, got nan")
        if epsilon == np.inf:
            return 0.0 if isinstance(self.pair, Density) else self.above.impossible
        own = self.pair if isinstance(self.pair, Density) else self.above
        return min(max(own.hockey_stick(float(epsilon)), 0.0), 1.0)

    def epsilon(self, delta: float) -> float:
        """ε(δ) of one release in this direction, the smallest ε ≥ 0 with δ(ε) ≤ δ; ∞ where there is none."""
        probability(delta=delta)
        if self.delta(0.0) <= delta:
            return 0.0
        if isinstance(self.pair, Density):
            mu = self.pair.gaussian
            usual = mu is not None and 1e-300 < delta < 0.999  # elsewhere δ(ε) is too flat, or denormal
            about = mu * (mu / 2 - float(ndtri(delta))) if mu and usual else None  # where Φ(μ/2 − ε/μ) is δ
            return smallest_epsilon(self.delta, self.largest_loss, float(delta), about)
        return max(self.above.smallest_epsilon(float(delta)), 0.0)

    @cached_property
    def mu(self) -> float:
        """The smallest Gaussian-DP μ of this curve, T ≥ G_μ: ∞ where T(0) < 1 or T reaches 0 before α = 1."""
        if isinstance(self.pair, Density) and self.pair.mu is not None:
            return self.pair.mu
        return smallest_mu(self.above)

    @cached_property
    def advantage(self) -> float:
        """max (1 − α − β) = δ(0): the total variation distance, the attacker's best edge over guessing."""
        return self.delta(0.0)

    def true_positive_rate(self, false_positive_rate: ArrayLike) -> Any:
        """The largest rate at which an attacker finds the record, at a given rate of false alarms: 1 − T.

        >>> round(Tradeoff.gaussian(1.0).true_positive_rate(0.01), 4)
        0.0924
        """
        return 1 - self(false_positive_rate)

    def hull(self, *others: Tradeoff) -> Tradeoff:
        """The lower convex hull of several curves: what is guaranteed when any of them may be the true one."""
        result: Tradeoff = self
        for other in others:
            if other is not result:
                result = Tradeoff(hull_of(result.pair, other.pair))
        return result

    def subsampled(self, rate: float, adjacency: Adjacency = "replace") -> Tradeoff:
        """The curve after Poisson sampling each record with probability `rate`.

        *add-remove*: T(P, (1−q)P + qQ), the direction in which Q holds the record; compose it and its inverse each by
        itself. *replace*: the hull of that curve, its inverse and, where P and Q differ in kind, both of these with P
        and Q exchanged: a round may meet any of them.

        >>> f = Tradeoff.between([0.3, 0.7], [0.7, 0.3]).subsampled(0.1)
        >>> f.delta(0.0) < 0.05
        True
        """
        probability(rate=rate)
        if rate == 1:
            return self
        if rate == 0:
            return Tradeoff.between([1.0], [1.0])
        sampled = Tradeoff(self.pair.mixed(rate))
        match adjacency:
            case "add-remove":
                return sampled
            case "replace":
                return self._replaced(sampled, rate)
            case _ as never:
                assert_never(never)

    def _replaced(self, sampled: Tradeoff, rate: float) -> Tradeoff:
        """The sampled curve by replacement: the hull of both directions, either side of the pair the odd record's."""
        either = hull_of(sampled.pair, sampled.inverse.pair, balanced=True)
        if self.symmetric:
            return Tradeoff(either)
        other = Tradeoff(self.pair.swapped.mixed(rate))  # the odd record may hold either side of the pair
        return Tradeoff(hull_of(either, hull_of(other.pair, other.inverse.pair, balanced=True), balanced=True))

    def compare(self, other: Tradeoff) -> Comparison:
        """Which of two curves lies above the other, up to 1e−12: the higher one gives less away.

        >>> Tradeoff.gaussian(1.0).compare(Tradeoff.gaussian(2.0))
        'more private'
        """
        grid = [np.linspace(0, 1, 2001)] + [t.breakpoints[0] for t in (self, other) if isinstance(t.pair, Atoms)]
        alpha = np.unique(np.concatenate(grid))
        difference = self(alpha) - other(alpha)
        above, below = bool((difference > 1e-12).any()), bool((difference < -1e-12).any())
        if above and below:
            return "incomparable"
        return "more private" if above else "less private" if below else "equal"


def _replaced(
    shift: float, rate: float, whole: Callable[[float], Tradeoff], sampled: Callable[[float, float], Density]
) -> Tradeoff:
    """The curve of a noisy sum, sampled at a rate, of records ±shift; of all records the noise's at twice the shift."""
    probability(rate=rate)
    own = whole(2 * shift)
    if rate == 1 or not isinstance(own.pair, Density):  # a shift of nothing, or one that gives everything away
        return own if rate > 0 else Tradeoff.between([1.0], [1.0])
    return Tradeoff(sampled(float(shift), float(rate))) if rate > 0 else Tradeoff.between([1.0], [1.0])
