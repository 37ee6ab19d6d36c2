"""How fast a sum of votes and K fair coins can move when one coordinate moves: the constant of Theorem B.

W = Bin(K, ½) + Bin(M, (B + x)/2B) and z_k(x) = Φ⁻¹(P(W > k)). A vector with ‖x‖₂ ≤ c and |x_j| ≤ r, sent under secure
aggregation among K coins a coordinate, is 2cS-GDP at any dimension, with S the largest |z_k(x) − z_k(0)| / |x|.
Proofs: docs/proofs/secure-aggregation.md, section 3.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import log, log1p, pi, sqrt

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from scipy.special import ndtri, ndtri_exp

from fedpriv._base.arrays import Vector
from fedpriv.bounds.coins import ROUNDING, likely_window, log_binomial
from fedpriv.errors import above, natural, positive, probability, whole

LARGEST_TABLE = 4_000_000  # entries; beyond it votes are bundled, then coins thrown away
LARGEST_EXPONENT = 600.0  # trials · ln(1/p_min); beyond it a table of votes could underflow
MOST_CELLS = 512  # of [0, r]; fewer where a table has many rows
MOST_WORK = 1_000_000  # rows · cells
UNSEEN = 1e-20  # share of what is negligible that tables leave out
OUTWARD = 1 + 2.0**-40
CERTAIN = 1e-12  # chance of a vote against, below which one is as good as certain and hides behind no coin
HAZARD = sqrt(2 / pi)  # the least d ln Φ(z)/dz over z ≤ 0, reached at 0; it also exceeds |z|


@lru_cache(maxsize=64)
def coin_slope(
    coins: int,  # K
    trials: int,  # M, the votes of one coordinate
    peak: float,  # r
    scale: float,  # B
    *,
    negligible: float = 0.0,  # τ
    tolerance: float = 1e-7,  # relative, of S
) -> tuple[float, float]:
    """Encloses S, how fast a sum of votes and coins moves with one coordinate: Theorem B's μ is 2c times it.

    S = sup |z_k(x) − z_k(0)| / |x| over |x| ≤ r and every k that is not negligible.

    With `negligible` = τ only those k count that some x puts more than τ above and some x more than τ at or below;
    each coordinate then adds τ to δ. The upper end is valid whatever the tolerance, and however many coins: beyond
    what a table can hold, both ends enclose a larger number, that of votes released one by one with equal shares of
    the coins.

    >>> lower, upper = coin_slope(3782, 4, 0.2, 0.911, negligible=1e-12 / (650 * 40))
    >>> round(lower, 6), round(upper, 6)
    (0.072333, 0.072333)
    """
    natural(coins=coins)
    whole(trials=trials)
    positive(peak=peak, tolerance=tolerance)
    above("peak", peak, scale=scale)
    probability(negligible=negligible)
    p_min = (scale - peak) / (2 * scale)
    if p_min < CERTAIN:
        return 0.0, float(-sqrt(trials) * ndtri(p_min) / peak * OUTWARD)  # `most`, below: no table shows less
    bundles = 1  # all votes together if the table allows it, else one vote each, else fewer coins too
    small = _rows(coins, negligible) * (trials + 1) <= LARGEST_TABLE
    if not (small and trials * log(1 / p_min) <= LARGEST_EXPONENT):
        # coins dealt out to single votes, each released with its own share, say more; so does a sum with fewer coins
        bundles, coins = trials, coins // trials
        while _rows(coins, negligible / trials) > LARGEST_TABLE // 2:
            coins = coins * 3 // 4
    sums = _Sums.of(coins, -(-trials // bundles), peak / (2 * scale), negligible / bundles)
    unit = sqrt(bundles) / (2 * scale)  # sums measure x in units of 2B; bundles add like coordinates
    # √M·Φ⁻¹((B + r)/2B)/r, at least S whatever the coins: every vote seen is √M·|h(x)|-GDP at x against 0, so W is.
    # Near r = B, where a vote is nearly certain, no speed between two points of a grid is finite; this is.
    most = float(-sqrt(trials) * ndtri(p_min) / peak * OUTWARD)
    cells, lower, upper = 8, *_scaled(sums.secants(8), unit, most)
    while upper - lower > tolerance * upper and cells < MOST_CELLS and cells * len(sums.tails.height) < MOST_WORK:
        cells *= 4
        lower, upper = _scaled(sums.secants(cells), unit, most)
    return lower, upper


def _scaled(found: tuple[float, float], unit: float, most: float) -> tuple[float, float]:
    """Theorem B's S from below and above in the data's units, each no larger than a bound that holds for any coins."""
    lower, upper = (min(one * unit, most) for one in found)
    return lower, upper


def _rows(coins: int, negligible: float) -> int:
    """How many outcomes of the coins a table of Theorem B's sums has a row for, negligible ones left out."""
    first, last = likely_window(coins, 0.5, negligible * UNSEEN)
    return last - first + 1


@dataclass(frozen=True, slots=True)
class _Mixture:
    """ln Σ_j e^{logs[k, j]} P(Bin(m, p) = j) for all k at once: one matrix, one product for every p."""

    height: Vector  # the largest logarithm of a row, taken out so that nothing underflows that matters
    table: Vector

    @classmethod
    def of(cls, logs: Vector) -> _Mixture:
        """A table for Theorem B: for each sum k the mixture over the votes j of e^{logs[k, j]}, in logarithms."""
        fair = logs + log_binomial(logs.shape[1] - 1, 0.5, 0, logs.shape[1] - 1)
        height = fair.max(axis=1)
        return cls(height, np.exp(fair - height[:, None]))

    def at(self, p: float) -> Vector:
        """Logarithms, one for each sum k, of Theorem B's tails or masses where a vote is + with probability p."""
        logs: Vector = self.height + np.log(self.table @ self._likelihood(p))
        return logs

    def slope(self, p: float) -> Vector:
        """How fast the logarithms of `at` grow with p, for each sum k of Theorem B: (E[j | k] − mp)/(p(1 − p)).

        It falls as p grows (Lemma 3).
        """
        likelihood, votes = self._likelihood(p), self.table.shape[1] - 1
        mean = (self.table @ (np.arange(votes + 1) * likelihood)) / (self.table @ likelihood)
        slope: Vector = (mean - votes * p) / (p * (1 - p))
        return slope

    def _likelihood(self, p: float) -> Vector:
        """How much likelier j = 0, …, m of m votes are at p than at ½: the weights of Theorem B's tables."""
        votes = self.table.shape[1] - 1
        j = np.arange(votes + 1)
        likelihood: Vector = np.exp(j * log(2 * p) + (votes - j) * log1p(1 - 2 * p))
        return likelihood

    def only(self, rows: NDArray[np.bool_]) -> _Mixture:
        """Theorem B's table for some of the sums k, those that are not negligible."""
        return _Mixture(self.height[rows], self.table[rows])


@dataclass(frozen=True, slots=True)
class _Point:
    """All k at one y."""

    y: float
    z: Vector  # z_k(y)
    doubt: Vector  # what z may be off by
    mass: Vector  # ln P(one vote fewer = k)
    slope: Vector  # the derivative of that logarithm


@dataclass(frozen=True, slots=True)
class _Sums:
    """The sums W at every p = ½ + y, |y| ≤ half, for the k that are not negligible; z_k(y) = Φ⁻¹(P(W > k))."""

    tails: _Mixture  # P(W > k)
    masses: _Mixture  # P(one vote fewer = k)
    half: float
    unit: float  # ln M√(2π)
    error: float  # of every logarithm below

    @classmethod
    def of(cls, coins: int, trials: int, half: float, negligible: float) -> _Sums:
        """Theorem B's sums W of so many coins and votes, at every chance ½ + y of a vote, negligible k left out."""
        first, _ = likely_window(coins, 0.5, negligible * UNSEEN)
        masses = log_binomial(coins, 0.5, first, coins - first)
        tails = np.logaddexp.accumulate(masses[::-1])[::-1]
        unit = log(trials * sqrt(2 * pi))
        error = ROUNDING * (len(masses) + trials / (0.5 - half) + 16) * (float(np.abs(masses).max()) + 16)
        over = _Mixture.of(_shifted(tails, trials, before=0.0)[1:])
        exact = _Mixture.of(_shifted(masses, trials - 1, before=-np.inf))
        if not negligible:
            return cls(over, exact, half, unit, error)
        often = over.at(0.5 + half) >= log(negligible) - error
        rows = often & often[::-1]  # P(W ≤ k) at −half is P(W > K + M − 1 − k) at +half
        return cls(over.only(rows), exact.only(rows), half, unit, error)

    def point(self, y: float) -> _Point:
        """What Theorem B needs of every sum k at the chance ½ + y of a vote: z_k, its error, masses and slopes."""
        over, under = self.tails.at(0.5 + y), self.tails.at(0.5 - y)[::-1]
        size: Vector = -ndtri_exp(np.minimum(over, under))
        doubt = self.error / np.maximum(size, HAZARD) + inverse_error(size)
        return _Point(
            y, np.where(over < under, -size, size), doubt, self.masses.at(0.5 + y), self.masses.slope(0.5 + y)
        )

    def speed(self, left: _Point, right: _Point) -> Vector:
        """For each sum k of Theorem B a bound above of dz_k/dy between two points.

        It is M·P(one vote fewer = k)/φ(z_k) (Lemma 4).
        """
        width = right.y - left.y
        nearest = np.where(left.z * right.z < 0, 0.0, np.minimum(left.z**2, right.z**2))
        least = width * np.exp(np.minimum(left.mass, right.mass) + nearest / 2 + self.unit - 4 * self.error)

        def from_end(mass: Vector, slope: Vector, z: Vector) -> Vector:
            """ln of the largest speed of z_k (but for a constant) in a cell on one side of z = 0, seen from one end."""
            return mass + np.maximum(z**2 / 2, slope * width + (z + least) ** 2 / 2)

        below, above = from_end(left.mass, left.slope, left.z), from_end(right.mass, -right.slope, -right.z)
        across = left.mass + np.maximum(left.slope, 0) * width + np.maximum(left.z**2, right.z**2) / 2
        highest = np.where(right.z <= 0, below, np.where(left.z >= 0, above, across))
        with np.errstate(over="ignore"):
            return np.exp(highest + self.unit + 4 * self.error)

    def secants(self, cells: int) -> tuple[float, float]:
        """Encloses Theorem B's S, the steepest secant of z_k from 0, in units of a vote's chance, on so many cells.

        That is sup (z_k(y) − z_k(0))/y over 0 < y ≤ half.

        −y is k mirrored. Cells shrink towards both ends.
        """
        s = np.linspace(0, 1, cells + 1)
        points = map(self.point, (self.half * s**2 * (3 - 2 * s)).tolist())
        origin = left = next(points)
        rise = np.zeros_like(origin.z)  # above z_k(left) − z_k(0)
        lower = upper = 0.0
        for right in points:
            speed = self.speed(left, right)
            gain, doubt = right.z - origin.z, origin.doubt + right.doubt + ROUNDING * speed
            rise = rise + (right.y - left.y) * speed
            upper = max(upper, float(rise.max(initial=0.0)) / right.y)
            lower = max(lower, float((gain - doubt).max(initial=0.0)) / right.y)
            rise, left = np.minimum(rise, gain + doubt), right
        return lower, upper


def inverse_error(size: Vector) -> Vector:
    """What the inverse `ndtri_exp` may be off by at |z| = size, for bounds that are rounded outward."""
    return ROUNDING * (8 + size**2 / 50) * size


def _shifted(values: Vector, votes: int, before: float) -> Vector:
    """A table of logarithms by sum and votes from those of the coins alone: row t is values[t − j], j = 0..votes.

    `before` is to the left of the values, −∞ to their right.
    """
    padded = np.concatenate([np.full(votes, before), values, np.full(votes, -np.inf)])
    return sliding_window_view(padded, votes + 1)[:, ::-1]
