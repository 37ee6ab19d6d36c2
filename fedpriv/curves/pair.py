"""The pair of distributions that a curve is of: finite, of densities, or known only between two finite ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import log, sqrt

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri_exp

from fedpriv._base.arrays import Vector
from fedpriv.curves._densities import Density
from fedpriv.curves.atoms import ROUNDING, Atoms, hull_of_pairs
from fedpriv.errors import FedprivError

LARGEST_EPSILON = 1e300  # past it, the search for an ε ends
SHORT_OF = 0.97  # of where a root is looked for first, the second point of a secant
SECANTS = 12  # about five are needed
SETTLED = 1e-10  # relative: the error behind so small a step of a secant is that of floats


@dataclass(frozen=True, eq=False)
class Enclosure:
    """A pair known only between two finite ones: `spread` gives away more than it, `merged` less."""

    spread: Atoms
    merged: Atoms

    @property
    def swapped(self) -> Enclosure:
        """This enclosed pair with P and Q exchanged in both finite pairs: for the other direction."""
        return Enclosure(self.spread.swapped, self.merged.swapped)

    @property
    def symmetric(self) -> bool:
        """Whether exchanging P and Q gives the very same masses of the pair above: one direction then is all."""
        return self.spread.symmetric

    def mixed(self, rate: float) -> Enclosure:
        """(P, (1 − rate)·P + rate·Q) of both finite pairs: this pair Poisson sampled, which keeps domination."""
        return Enclosure(self.spread.mixed(rate), self.merged.mixed(rate))


Pair = Atoms | Density | Enclosure


def finite_above(pair: Pair) -> Atoms:
    """A finite pair that gives away no less than a curve's pair (that pair where it is finite): `Tradeoff.above`."""
    return pair if isinstance(pair, Atoms) else pair.spread


def finite_below(pair: Pair) -> Atoms:
    """A finite pair that gives away no more than a curve's pair (that pair where it is finite): `Tradeoff.below`."""
    return pair if isinstance(pair, Atoms) else pair.merged


def hull_of(first: Pair, second: Pair, balanced: bool = False) -> Atoms | Enclosure:
    """The pair that is guaranteed where either of two may be the true one; enclosed only, unless both are finite."""
    above = hull_of_pairs(finite_above(first), finite_above(second), balanced)
    if isinstance(first, Atoms) and isinstance(second, Atoms):
        return above
    return Enclosure(above, hull_of_pairs(finite_below(first), finite_below(second), balanced))


def checked_distributions(p: ArrayLike, q: ArrayLike) -> tuple[Vector, Vector]:
    """P and Q of `Tradeoff.between` as arrays: one length, no negative or missing mass, each summing to one."""
    first, second = np.asarray(p, dtype=float), np.asarray(q, dtype=float)
    if first.ndim != 1 or first.shape != second.shape or not first.size:
        raise FedprivError(f"P and Q must be two lists of one length, got shapes {first.shape} and {second.shape}")
    for name, mass in (("P", first), ("Q", second)):
        if not (mass >= 0).all():
            raise FedprivError(f"{name} must hold probabilities, got {mass[~(mass >= 0)][0]}")
        if not abs(mass.sum() - 1) <= 1e-9:
            raise FedprivError(f"{name} must sum to 1, got {mass.sum()}")
    return first, second


def error_rates(alpha: ArrayLike) -> Vector:
    """One rate of errors or several, checked: numbers between 0 and 1."""
    try:
        levels = np.asarray(alpha, dtype=float)
    except (TypeError, ValueError):
        raise FedprivError(f"alpha must be numbers between 0 and 1, got {alpha!r}"[:200]) from None
    if not np.all((levels >= 0) & (levels <= 1)):
        raise FedprivError(f"alpha must be between 0 and 1, got {alpha!r}")
    return levels


def normal_quantile(log_mass: Vector, log_rest: Vector) -> Vector:
    """Φ⁻¹ of masses, each from the smaller of it and its complement: a curve's corners become its Gaussian-DP μ."""
    small = np.minimum(np.minimum(log_mass, log_rest), np.log(0.5))
    return np.where(log_mass <= log_rest, 1.0, -1.0) * ndtri_exp(small)


def smallest_epsilon(
    delta_of: Callable[[float], float], largest_loss: float, delta: float, about: float | None = None
) -> float:
    """The ε at which a density's δ(ε) crosses δ, rounded outward, for `Tradeoff.epsilon`; looking first at `about`."""
    if delta == 0:
        return largest_loss

    def past(epsilon: float) -> float:  # nearly straight, as ln δ falls by squares
        """How far √−ln δ(ε) is past that of the δ asked for: its root is the ε."""
        left = delta_of(epsilon)
        return sqrt(-log(left)) - depth if left else 1.0

    depth = sqrt(-log(delta))
    found = None if about is None else _secant(past, about)
    if found is None:
        low, high = 0.0, 1.0
        while delta_of(high) > delta:
            low, high = high, 2 * high
            if high > LARGEST_EPSILON:
                return largest_loss
        from scipy.optimize import brentq  # a tenth of a second to load

        found = brentq(past, low, high, rtol=1e-14, xtol=1e-300)
    step = 2.0**-52 * found
    while delta_of(found) > delta:
        found, step = found + step, 2 * step
    return float(found)


def _secant(function: Callable[[float], float], start: float) -> float | None:
    """A root near the start of what is nearly straight, the first try at an ε(δ); None where it leads nowhere soon."""
    before, found = start, SHORT_OF * start
    value, last = function(found), function(before)
    for _ in range(SECANTS):
        if value == last or not 0 < found < LARGEST_EPSILON:
            return None
        step = value * (found - before) / (value - last)
        before, last, found = found, value, found - step
        if abs(step) <= SETTLED * abs(found):
            return found
        value = function(found)
    return None


def smallest_mu(atoms: Atoms) -> float:
    """The smallest Gaussian-DP μ of a finite pair's curve T, T ≥ G_μ: `Tradeoff.mu`.

    A piecewise linear curve lies above the convex G_μ when its inner corners (a, b) do: μ = max −Φ⁻¹(a) − Φ⁻¹(b).
    """
    if np.isinf(atoms.loss).any():
        return float("inf")
    below, above = np.logaddexp.accumulate(atoms.log_p), np.logaddexp.accumulate(atoms.log_q[::-1])[::-1]
    a, not_a = below[:-1], np.logaddexp.accumulate(atoms.log_p[::-1])[::-1][1:]
    b, not_b = above[1:], np.logaddexp.accumulate(atoms.log_q)[:-1]
    with np.errstate(invalid="ignore"):
        corner = np.nan_to_num(-normal_quantile(a, not_a) - normal_quantile(b, not_b), nan=np.inf)
    slack = 1 + 8 * atoms.error + 64 * ROUNDING
    return float(max(corner.max(initial=0.0), 0.0) * slack)
