"""Rényi divergences of votes, certified, and what (ε, δ) they prove. Proofs: docs/proofs/renyi.md.

A vote is Bern((1+u)/2) with u = x/scale in [−ρ, ρ]; with probability 1 − keep it is erased, whatever x. Bounding its
divergence by a multiple of (x − x')² frees the bound of the dimension: squares add up to the ℓ2 norm.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from math import erf, exp, inf, log, log1p, nextafter, pi, sqrt

import numpy as np

from fedpriv._base.arrays import Vector
from fedpriv.errors import FedprivError, above, at_most, positive, probability, real, whole

Curve = Callable[[float], float]  # an order α > 1 to an upper bound of D_α

ROUNDING = 2.0**-40  # 4096 ulps outward; the formulas below lose fewer than 1200 (proofs, section 6)
CELLS = 100_000  # past this many the enclosure stays valid and only stops getting narrower
FINEST = 256  # orders tried between 1 + 2^k and 1 + 2^{k+1}: the best of them loses 1e-6 of ε
LADDER = range(-20, 41)  # the powers of two that α − 1 lies between
DEPTH = 40  # quarterings at most: they reach 1e-26 of the width, where orders beyond 1e12 have their maximum


@lru_cache(maxsize=1 << 14)  # after every round the same orders are asked for
def divergence_slope(alpha: float, rho: float, keep: float = 1.0, tolerance: float = 1e-7) -> tuple[float, float]:
    """Encloses g, the largest ratio of one vote's D_α to (u − v)²: such squares add up to a vector's ℓ2 norm.

    g = sup D_α(u‖v)/(u − v)² over |u|, |v| ≤ ρ, where D_α = ln(1 + keep·(e^{(α−1)F} − 1))/(α−1).

    The supremum has v = ±ρ (Theorem 1); for α ≤ 2 it is keep·α/2(1−ρ²), the limit u → v (Theorem 2).

    >>> lower, upper = divergence_slope(4, 0.1)
    >>> round(lower, 6), round(upper, 6)
    (2.023396, 2.023396)
    """
    above("1", 1.0, alpha=alpha)
    positive(rho=rho, keep=keep, tolerance=tolerance)
    above("rho", rho, one=1.0)
    at_most("1", 1.0, keep=keep)
    limit = keep * alpha / (2 * (1 - rho) * (1 + rho))
    if alpha <= 2:
        return limit * (1 - ROUNDING), min(limit * (1 + ROUNDING), slope_bound(alpha, rho, keep))
    # branch and bound over d in (0, 2ρ]: on a cell [a, b], D/d² ≤ ratio(a, falling(a), growing(b))
    vote, lower = _Vote(alpha, rho, keep), limit
    edges = np.linspace(0, 2 * rho, 65)[:, None]  # a column of edges for each interval that is open
    for _ in range(DEPTH):
        falling, growing = vote.terms(edges)
        lower = max(lower, float(vote.ratio(edges[1:], falling[1:], growing[1:]).max()))
        bound = np.nan_to_num(vote.ratio(edges[:-1], falling[:-1], growing[1:]), nan=inf)
        unsettled = bound > lower * (1 + tolerance)
        if not unsettled.any() or 4 * np.count_nonzero(unsettled) > CELLS:
            break
        edges = np.linspace(edges[:-1][unsettled], edges[1:][unsettled], 5)
    upper = max(lower * (1 + tolerance), float(bound.max()))
    return lower * (1 - ROUNDING), min(upper * (1 + ROUNDING), slope_bound(alpha, rho, keep))


def slope_bound(alpha: float, rho: float, keep: float = 1.0) -> float:
    """A closed form above g, the largest ratio of a vote's D_α to (u − v)²: it caps what `divergence_slope` finds.

    α/2(1−ρ²)² for F, times keep·z/(1 + keep·(z−1)) ≥ D/F.

    Here z ≥ e^{(α−1)F}.

    >>> divergence_slope(4, 0.1)[1] < slope_bound(4, 0.1) < 2.041
    True
    """
    curvature = alpha / (2 * ((1 - rho) * (1 + rho)) ** 2)
    largest = min(curvature * (2 * rho) ** 2, log1p(rho) - log1p(-rho))  # F at most: Theorem 4, and D_∞
    return curvature * keep / (keep + (1 - keep) * exp((1 - alpha) * largest)) * (1 + ROUNDING)


@dataclass(frozen=True, slots=True)
class _Vote:
    """The divergence at u = ρ − d, v = ρ, where e^{(α−1)F} = 1 + d²·(e^falling + e^growing)."""

    alpha: float  # the order
    rho: float
    keep: float  # the probability that the vote is not erased

    def terms(self, d: Vector) -> Vector:
        """The two terms of a vote's divergence at u = ρ − d, v = ρ, in logarithms: rows falling(d) and growing(d).

        ln of ((1+r)^α − 1 − αr)/r² at r = ∓d/(1 ± ρ), less ln 2(1 ± ρ).

        For r > −1 and α > 2, without cancellation near r = 0 or overflow far from it.
        """
        alpha, distance = self.alpha, np.array([1 + self.rho, 1 - self.rho]).reshape(2, *[1] * d.ndim)
        r = np.array([-1.0, 1.0]).reshape(distance.shape) * d / distance
        series = np.zeros_like(r)
        for k in range(12, 2, -1):  # Taylor: past k = 12 the terms are below 1e-16 of the sum where α|r| < 0.1
            series = (1 + series) * r * ((alpha - k + 1) / k)
        near = alpha * np.abs(r) < 0.1
        x = np.where(near, 1.0, r)
        power = (alpha - 1) * np.log1p(x)
        moderate = np.log((1 + x) * np.expm1(np.minimum(power, 30)) - (alpha - 1) * x)
        large = power + np.log1p(x) + np.log1p(-(1 + alpha * x) / (1 + x) * np.exp(-np.maximum(power, 30)))
        far = np.where(power < 30, moderate, large) - 2 * np.log(np.abs(x))
        log_excess = np.where(near, np.log1p(np.where(near, series, 0)) + log(alpha * (alpha - 1) / 2), far)
        return np.asarray(log_excess - np.log(2 * distance))

    def ratio(self, d: Vector, falling: Vector, growing: Vector) -> Vector:
        """A vote's D_α over d², of its two terms: falls in d while these are held, grows in both; at 0 its limit."""
        log_terms = np.logaddexp(falling, growing) + log(self.keep)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            log_odds = log_terms + 2 * np.log(d)
            ratio = np.where(log_odds < -37, np.exp(log_terms), np.logaddexp(0, log_odds) / d / d)
        return np.asarray(ratio / (self.alpha - 1))


@dataclass(frozen=True, kw_only=True, slots=True)
class VoteCurve:
    """D_α ≤ distance·slope(α, ρ, keep), and ≤ gaussian·α where that is known: the curve of a whole vector of votes."""

    rho: float  # the largest |u|
    distance: float  # the sum of (u − v)² over coordinates, trials and rounds, at most
    keep: float = 1.0
    gaussian: float = inf  # D_α is at most so many times α, whatever the slope
    tolerance: float = 1e-7

    def __call__(self, alpha: float) -> float:
        """A certified upper bound of D_α of a whole vector of votes, the curve's value at order α."""
        return self._at(alpha, self.tolerance)[1] * (1 + ROUNDING)

    def estimate(self, alpha: float) -> float:
        """A value of the votes' D_α from below: no certificate, but the quick way to a good order."""
        return self._at(alpha, 1e-2)[0]

    def floor(self, alpha: float) -> float:
        """The least that the votes' D_α is ever certified to be at this order, by the limit u → v: quick."""
        spread = 2 * (1 - self.rho) * (1 + self.rho)
        return min(self.gaussian * alpha, self.distance * self.keep * alpha / spread if spread else inf)

    def _at(self, alpha: float, tolerance: float) -> tuple[float, float]:
        """The votes' D_α at an order, between a lower and an upper bound as close as the tolerance."""
        cap = self.gaussian * alpha
        if cap <= self.floor(alpha):
            return cap, cap
        lower, upper = divergence_slope(alpha, self.rho, self.keep, tolerance)
        return min(cap, self.distance * lower), min(cap, self.distance * upper)


def repeated_curve(curve: Curve, times: float) -> Curve:
    """The Rényi curve of `times` repetitions of what a curve is of, such as the rounds of a run.

    >>> repeated_curve(lambda alpha: alpha / 2, 3)(2)
    3.0
    """
    if isinstance(curve, VoteCurve):
        outward = times * (1 + 2.0**-50)
        return replace(curve, distance=curve.distance * outward, gaussian=curve.gaussian * outward)
    return lambda alpha: curve(alpha) * times


def vector_curve(
    *,
    clip: float,
    peak: float,
    scale: float,
    keep: float = 1.0,
    trials: int = 1,
    rounds: int = 1,
    tolerance: float = 1e-7,
) -> VoteCurve:
    """The Rényi curve of `rounds` messages of votes (scale + x_j)/(2·scale) with ‖x‖₂ ≤ clip, |x_j| ≤ peak.

    D_α ≤ rounds·trials·g_α(peak/scale)·(2·clip/scale)².

    Binomial(scale): keep = 1. Ternary(spread A, scale B): scale = A, keep = A/B.

    >>> round(renyi_epsilon(vector_curve(clip=0.1, peak=0.1, scale=1, rounds=100), 1e-5), 3)
    10.797
    """
    positive(clip=clip, peak=peak)
    above("peak", peak, scale=scale)
    whole(trials=trials, rounds=rounds)
    distance = rounds * trials * (2 * clip / scale) ** 2
    rho = nextafter(peak / scale, 1)
    return VoteCurve(rho=rho, distance=distance, keep=min(1.0, nextafter(keep, 1)), tolerance=tolerance)


def noisy_sign_curve(*, clip: float, peak: float, noise: float, rounds: int = 1, tolerance: float = 1e-7) -> VoteCurve:
    """The Rényi curve of `rounds` messages of signs of x plus Gaussian noise, with ‖x‖₂ ≤ clip, |x_j| ≤ peak.

    Votes Φ(x_j/noise): u = 2Φ(x/s) − 1 has slope ≤ √(2/π)/s; and D_α ≤ α·(2·clip)²/2s², the Gaussian's sign.

    >>> curve = noisy_sign_curve(clip=1, peak=0.1, noise=2)
    >>> 0.63 < curve(4) / 2 < 0.64  # 2/π of the Gaussian's 4·(2/2)²/2
    True
    """
    positive(clip=clip, peak=peak, noise=noise)
    whole(rounds=rounds)
    squares = rounds * (2 * clip / noise) ** 2
    rho = min(erf(peak / noise / sqrt(2)) * (1 + 2.0**-50), nextafter(1, 0))
    return VoteCurve(rho=rho, distance=squares * 2 / pi, gaussian=squares / 2, tolerance=tolerance)


def renyi_epsilon(curve: Curve, delta: float, guide: Curve | None = None) -> float:
    """The certified ε at δ of a Rényi curve, over real α. Canonne–Kamath–Steinke 2020, Prop. 12.

    The least of D_α + ln(1 − 1/α) − (ln δ + ln α)/(α − 1).

    Every order is a certificate, so a quick `guide` (default: the curve's own estimate) chooses, and the curve answers.

    >>> round(renyi_epsilon(lambda alpha: alpha / 2, 1e-5), 4)  # the Gaussian mechanism, μ = 1; its exact ε is 4.3772
    4.7284
    """
    probability(delta=delta)
    if delta == 0:
        return inf
    return max(0.0, _least(lambda alpha, d: epsilon_at(alpha, d, delta), curve, guide))


def renyi_delta(curve: Curve, epsilon: float, guide: Curve | None = None) -> float:
    """The certified δ at an ε ≥ 0 of a Rényi curve, over real α.

    The least of e^{(α−1)(D_α − ε)}·(1 − 1/α)^{α−1}/α, rounded up.

    >>> round(renyi_delta(lambda alpha: alpha / 2, 4.72839) * 1e5, 3)
    1.0
    """
    real(epsilon=epsilon)
    if not epsilon >= 0:
        raise FedprivError(f"epsilon must be at least 0, got {epsilon}")
    log_delta = _least(
        lambda alpha, divergence: (
            ((alpha - 1) * (divergence - epsilon + log1p(-1 / alpha)) - log(alpha))
            + ROUNDING * ((alpha - 1) * (divergence + epsilon) + log(alpha) + 1)
        ),
        curve,
        guide,
    )
    return nextafter(exp(log_delta), inf) if log_delta < 0 else 1.0


def epsilon_at(alpha: float, divergence: float, delta: float) -> float:
    """The ε at δ that a divergence D at one order proves: D + ln(1 − 1/α) − (ln δ + ln α)/(α − 1), rounded up."""
    conversion = log1p(-1 / alpha) - (log(delta) + log(alpha)) / (alpha - 1)
    return divergence + conversion + ROUNDING * (divergence + (1 + abs(log(delta)) + log(alpha)) / (alpha - 1))


def _least(objective: Callable[[float, float], float], curve: Curve, guide: Curve | None) -> float:
    """The least of an objective of (α, D_α) on a Rényi curve, near the order where it is least on the quick guide.

    Downhill, in steps that halve.

    Orders of votes lie on one grid for all curves, so that what is known of one serves the next.
    """
    guide = guide or (curve.estimate if isinstance(curve, VoteCurve) else curve)
    seen: dict[float, float] = {}

    def guided(exponent: float) -> float:
        """The ε (or ln δ) that the quick guide to a Rényi curve gives at the order 1 + 2^exponent, kept."""
        if exponent not in seen:
            alpha = 1 + 2.0**exponent
            seen[exponent] = objective(alpha, guide(alpha))
        return seen[exponent]

    rough = curve.floor if isinstance(curve, VoteCurve) else guide
    best, step = float(min(LADDER, key=lambda at: objective(1 + 2.0**at, rough(1 + 2.0**at)))), 1.0
    while step >= 1 / FINEST:
        nearer = min((best, max(best - step, LADDER[0]), min(best + step, LADDER[-1])), key=guided)
        best, step = (nearer, step) if nearer != best else (best, step / 2)
    if not isinstance(curve, VoteCurve):  # it may have a corner, and no slopes are kept that other orders would not use
        from scipy.optimize import minimize_scalar  # a tenth of a second, which few need

        near = (best - 1 / FINEST, best + 1 / FINEST)
        found = minimize_scalar(guided, bounds=near, method="bounded", options={"xatol": 1e-6})
        best = min(best, float(found.x), key=guided)
    alpha = 1 + 2.0**best
    return objective(alpha, curve(alpha))
