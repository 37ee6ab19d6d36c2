"""A pair of finite distributions, kept in logarithms so that nothing underflows.

Every curve of the project ends here: `Tradeoff` answers from atoms, `compose` composes them. The outcomes of
(P, Q) are sorted by the loss ln(Q/P), largest first; a loss of +∞ is an outcome P never gives, −∞ one Q never gives.

The one function of a pair that matters is its hockey stick D(ε) = Σ max(Q − e^ε P, 0), piecewise linear in e^ε with its
corners at the losses. `hockey_stick_corners` sums it from positive terms only, so a D of 1e−136 is as accurate as one
of 0.1.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedpriv._base.arrays import Vector

ROUNDING = 2.0**-50  # relative error of a mass or a loss that one correctly written formula leaves


@dataclass(frozen=True, eq=False)
class Atoms:
    """Outcomes with log masses under P and Q; `error` bounds the relative error of each mass and of each Q/P."""

    log_p: Vector
    log_q: Vector
    loss: Vector  # ln(Q/P), falling; kept beside the masses because it outlives their rounding
    error: float = ROUNDING
    balanced: bool = False  # known to be its own inverse, whatever the rounding of its masses

    @staticmethod
    def sorted(log_p: Vector, log_q: Vector, loss: Vector, error: float = ROUNDING, balanced: bool = False) -> Atoms:
        """A finite pair of log masses and losses, in falling order of loss; outcomes neither side gives left out."""
        order = np.argsort(-loss, kind="stable")
        order = order[np.isfinite(loss[order]) | ~(np.isneginf(log_p) & np.isneginf(log_q))[order]]
        return Atoms(log_p[order], log_q[order], loss[order], error, balanced)

    @staticmethod
    def of_masses(p: Vector, q: Vector, error: float = ROUNDING) -> Atoms:
        """The finite pair of two arrays of masses over the same outcomes, losses worked out and sorted.

        >>> Atoms.of_masses(np.array([0.25, 0.75]), np.array([0.75, 0.25])).loss.round(6).tolist()
        [1.098612, -1.098612]
        """
        keep = (p > 0) | (q > 0)
        p, q = p[keep], q[keep]
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            near = np.abs(q - p) < p / 2  # there the difference is exact, and a small loss keeps its digits
            loss = np.where(near, np.log1p((q - p) / p), np.log(q) - np.log(p))
            return Atoms.sorted(np.log(p), np.log(q), loss, error)

    @cached_property
    def swapped(self) -> Atoms:
        """This pair with P and Q exchanged, losses falling again: the other direction of what is given away."""
        return Atoms(self.log_q[::-1], self.log_p[::-1], -self.loss[::-1], self.error, self.balanced)

    @cached_property
    def symmetric(self) -> bool:
        """Whether exchanging P and Q gives the very same masses: a composition then has one direction only."""
        return self.balanced or np.array_equal(self.log_p, self.log_q[::-1])

    @cached_property
    def p(self) -> Vector:
        """Masses of the outcomes under P, the release from one input, in falling order of loss."""
        return np.exp(self.log_p)

    @cached_property
    def q(self) -> Vector:
        """Masses of the outcomes under Q, the release from the neighbouring input, in falling order of loss."""
        return np.exp(self.log_q)

    @cached_property
    def impossible(self) -> float:
        """Mass under Q of the outcomes P never gives: D(ε) at every ε is at least this."""
        return float(self.q[np.isposinf(self.loss)].sum())

    @cached_property
    def finite(self) -> Atoms:
        """This pair with only the outcomes that both sides give: what a lattice of losses can hold."""
        keep = np.isfinite(self.loss)
        return self if keep.all() else Atoms(self.log_p[keep], self.log_q[keep], self.loss[keep], self.error)

    @property
    def largest_loss(self) -> float:
        """The pure ε of this direction (Q against P): the largest loss, or ∞."""
        return float(self.loss[0]) if self.loss.size else 0.0

    @cached_property
    def corners(self) -> tuple[Vector, Vector, Vector]:
        """(losses falling, D at each, ln of P's mass at or above): the linear pieces that δ(ε), ε(δ) are read off."""
        return hockey_stick_corners(self.finite.loss, self.finite.log_p, self.impossible)

    def hockey_stick(self, epsilon: float) -> float:
        """δ(ε) of this pair, for any real ε: D(ε) = Σ max(Q − e^ε P, 0), what `Tradeoff.delta` answers."""
        return float(hockey_stick(self.corners, self.impossible, epsilon))

    def smallest_epsilon(self, delta: float) -> float:
        """ε(δ) of this pair, the smallest real ε with D(ε) ≤ δ: ∞ if impossible mass exceeds δ, −∞ if D never does."""
        if delta == 0 and self.impossible == 0:
            return self.largest_loss
        return smallest_epsilon(self.corners, self.impossible, delta)

    def mixed(self, rate: float) -> Atoms:
        """(P, (1 − rate)·P + rate·Q): what Poisson sampling leaves of a pair when Q holds the extra record.

        loss ↦ ln(1 − rate + rate·e^loss); outcomes and their order stay.
        """
        log_mass = np.log(rate) + self.log_q
        loss = np.full_like(self.loss, np.inf)
        seen = ~np.isposinf(self.loss)
        loss[seen] = log_mixture(self.loss[seen], rate)
        log_mass[seen] = self.log_p[seen] + loss[seen]
        return Atoms(self.log_p, log_mass, loss, self.error + ROUNDING)


def log_mixture(loss: Vector, rate: float) -> Vector:
    """The loss that Poisson sampling makes of a loss: ln(1 − rate + rate·e^loss), no overflow, accurate near 0."""
    with np.errstate(over="ignore"):
        middle = np.log1p(rate * np.expm1(np.minimum(loss, 30.0)))
        far = np.logaddexp(np.log(rate) + loss, np.log1p(-rate) if rate < 1 else -np.inf)
        return np.where(np.abs(loss) < 0.5, middle, far)


def log_unmixed(loss: Vector, rate: float) -> Vector:
    """The loss before Poisson sampling of a loss after it, `log_mixture` inverted; −∞ at and below ln(1 − rate)."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        small = np.log1p(np.maximum(np.expm1(np.minimum(loss, 30.0)) / rate, -1.0))
        large = loss - np.log(rate) + np.log1p(-(1 - rate) * np.exp(-np.maximum(loss, 30.0)))
    return np.where(loss > 30, large, small)


def hockey_stick_corners(loss: Vector, log_p: Vector, impossible: float) -> tuple[Vector, Vector, Vector]:
    """(losses, D at each, ln of P's mass at or above) of a finite pair: the profile that δ(ε) is read off.

    D(t_k+1) = D(t_k) + (t_k − t_k+1)·P(loss ≥ ln t_k), sums of positive terms, no cancellation.
    """
    if not loss.size:
        return loss, loss, loss
    largest = log_p.max()
    if log_p.min() < largest - 600:
        log_above = np.asarray(np.logaddexp.accumulate(log_p))
    else:  # no mass underflows beside the largest, and plain sums are ten times faster
        log_above = np.asarray(largest + np.log(np.cumsum(np.exp(log_p - largest))))
    rise = np.exp(np.minimum(log_above[:-1] + loss[:-1], 1.0)) * -np.expm1(np.diff(loss))  # e^loss·P ≤ Q ≤ 1
    return loss, impossible + np.concatenate(([0.0], np.cumsum(rise))), log_above


def hockey_stick(profile: tuple[Vector, Vector, Vector], impossible: float, epsilon: ArrayLike) -> Vector:
    """D(ε) of a pair's profile, from `hockey_stick_corners`, on the piece that holds ε, for a number or an array."""
    loss, at_loss, log_above = profile
    points = np.asarray(epsilon, dtype=float)
    if not loss.size:
        return np.full(points.shape, impossible)
    piece = np.searchsorted(-loss, -points, side="left") - 1  # last loss above ε
    held = np.maximum(piece, 0)
    rise = np.exp(np.minimum(log_above[held] + loss[held], 1.0)) * -np.expm1(np.minimum(points - loss[held], 0.0))
    return np.where(piece < 0, impossible, at_loss[held] + rise)


def smallest_epsilon(profile: tuple[Vector, Vector, Vector], impossible: float, delta: float) -> float:
    """The ε at which a pair's profile falls to δ: find the piece, then solve D_k + (t_k − t)·P_k = δ for ln t."""
    loss, at_loss, log_above = profile
    if delta < impossible:
        return np.inf
    if not loss.size:
        return -np.inf
    piece = int(np.searchsorted(at_loss, delta, side="right")) - 1  # last corner with D ≤ δ
    with np.errstate(divide="ignore"):
        log_part = np.log(delta - at_loss[piece]) - (log_above[piece] + loss[piece])
    return float(loss[piece] + np.log1p(-np.exp(log_part))) if log_part < 0 else -np.inf


def hull_of_pairs(one: Atoms, two: Atoms, balanced: bool = False) -> Atoms:
    """The pair whose hockey stick is max(D₁, D₂), again convex and piecewise linear in t = e^ε: the worse of two pairs.

    Its corners are those of the larger function, and one more wherever the two lines cross between corners.
    """
    loss, first_rules = _ruled(one, two)
    own = np.where(first_rules[1:], _mass_at(one, loss), _mass_at(two, loss))
    above = np.where(first_rules, _log_above(one, loss), _log_above(two, loss))
    with np.errstate(divide="ignore", invalid="ignore"):
        change = above[1:] + np.log(-np.expm1(np.minimum(above[:-1] - above[1:], 0.0)))
    log_p = np.where(first_rules[1:] == first_rules[:-1], own, np.where(np.isnan(change), -np.inf, change))
    kept = ~np.isneginf(log_p)
    lower = one if first_rules[-1] else two
    hidden = float(np.logaddexp.reduce(lower.log_p[lower.loss == -np.inf], initial=-np.inf))  # ln of P's mass at −∞
    with np.errstate(divide="ignore"):
        impossible = np.log(max(one.impossible, two.impossible))
    return Atoms.sorted(
        np.concatenate(([-np.inf], log_p[kept], [hidden])),
        np.concatenate(([impossible], (log_p + loss)[kept], [-np.inf])),
        np.concatenate(([np.inf], loss[kept], [-np.inf])),
        max(one.error, two.error) + 4 * ROUNDING,
        balanced,
    )


def _ruled(one: Atoms, two: Atoms) -> tuple[Vector, NDArray[np.bool_]]:
    """Where two pairs' hull has corners, falling, and whether D₁ is the larger on the stretches about each.

    A difference that is no more than rounding does not change who rules. Below 0, where D is 1 − t and a little more,
    the little is compared: D(ε) − 1 + t is t times the D of the pair with P and Q exchanged, at −ε. Its digits are
    those of the smaller of the two directions. Between corners D₁ and D₂ are linear in t, and so cross once at most.
    """
    loss = np.unique(np.concatenate((one.finite.loss, two.finite.loss)))[::-1]
    little = []
    for pair in (one, two):
        back = pair.swapped
        own = hockey_stick(pair.corners, pair.impossible, np.maximum(loss, 0.0))
        other = np.exp(np.minimum(loss, 0.0)) * hockey_stick(back.corners, back.impossible, np.maximum(-loss, 0.0))
        little.append(np.where(loss > 0, own, other))
    first, second = little
    gap, level = first - second, np.maximum(first, second)
    clear = np.abs(gap) > 4 * ROUNDING * (1 + loss.size) * level
    last_clear = np.maximum.accumulate(np.where(clear, np.arange(loss.size), -1))
    start = float(one.impossible - two.impossible) or float(gap[clear][0] if clear.any() else 1.0)
    rules = np.where(last_clear >= 0, gap[last_clear], start) > 0
    at = np.flatnonzero(rules[:-1] != rules[1:])
    steeper = np.exp(_log_above(one, loss)[1:][at] + loss[at]) - np.exp(_log_above(two, loss)[1:][at] + loss[at])
    with np.errstate(divide="ignore", invalid="ignore"):
        crossing = loss[at] + np.log1p(gap[at] / steeper)
    crossing = np.clip(np.where(np.isnan(crossing), loss[at + 1], crossing), loss[at + 1], loss[at])
    corners_ = np.concatenate((loss, crossing))
    below = np.concatenate((rules, rules[at + 1]))  # who rules just below each corner
    order = np.argsort(-corners_, kind="stable")
    return corners_[order], np.concatenate(([start > 0], below[order]))


def _log_above(pair: Atoms, loss: Vector) -> Vector:
    """ln P(loss ≥ corner) of a pair after each of the hull's corners, with a leading −∞ for what is above all."""
    own, _, log_above = pair.corners
    reached = np.searchsorted(-own, -loss, side="right")
    return np.concatenate(([-np.inf], np.concatenate(([-np.inf], log_above))[reached]))


def _mass_at(pair: Atoms, loss: Vector) -> Vector:
    """ln of P's mass at each of a hull's corners (falling); −∞ where this pair has no outcome there."""
    finite = pair.finite
    mass = np.full(loss.shape, -np.inf)
    np.logaddexp.at(mass, np.searchsorted(-loss, -finite.loss), finite.log_p)
    return mass
