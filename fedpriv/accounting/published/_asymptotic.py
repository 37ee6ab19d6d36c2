"""Central-limit and Edgeworth approximations of composed privacy: to look at, never to certify.

Every number here may lie on the wrong side of the truth, and does: a Poisson-subsampled Gaussian at q = 0.01, σ = 1,
T = 1,000 gets ε(1e−5) = 1.618 where the truth is 1.828. Certificates are those of `fedpriv.curves`.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, expm1, inf, sqrt
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import log_ndtr, ndtr

from fedpriv._base.arrays import Vector
from fedpriv.curves.tradeoff import Tradeoff
from fedpriv.errors import FedprivError, positive, probability, real, whole


def subsampled_mu(mu: float, rate: float, rounds: int) -> float:
    """Asymptotic μ of `rounds` fixed batches, each a `rate` of the records, of a μ-GDP step. [F] Lemma 2.

    μ_T = √2·s·√(e^{μ²}Φ(1.5μ) + 3Φ(−0.5μ) − 2) with s = rate·√rounds.

    >>> round(subsampled_mu(1.0, 0.01, 1000), 6)
    0.540795
    """
    positive(mu=mu)
    probability(rate=rate)
    whole(rounds=rounds)
    if mu * mu > 700:  # beyond floats, and beyond any use
        return inf
    growth = exp(mu * mu) * float(ndtr(1.5 * mu)) + 3 * float(ndtr(-0.5 * mu)) - 2
    return rate * sqrt(2 * rounds * growth)


def poisson_gaussian_mu(noise: float, rate: float, rounds: int) -> float:
    """Asymptotic μ of DP-SGD under add/remove: rate·√(rounds·(e^{1/σ²} − 1)). Bu–Dong–Long–Su 2020, Corollary 4.

    >>> round(Tradeoff.gaussian(poisson_gaussian_mu(1.0, 0.01, 1000)).epsilon(1e-5), 3)  # the truth is 1.828
    1.618
    """
    positive(noise=noise)
    probability(rate=rate)
    whole(rounds=rounds)
    return rate * sqrt(rounds * expm1(1 / noise**2))


@dataclass(frozen=True, slots=True)
class Moments:
    """Moments of the loss L = ln(p/q) under p. Dong–Roth–Su, section 3.2."""

    kl: float  # KL(P‖Q), the mean
    second: float  # E L²
    third: float  # E|L|³
    third_central: float  # E|L − KL|³

    @property
    def variance(self) -> float:
        """The variance E L² − KL² of the privacy loss of one release, which central-limit values are made of."""
        return self.second - self.kl**2

    def berry_esseen(self, rounds: int) -> float:
        """The error γ of the central limit: G_μ(α + γ) − γ ≤ f ≤ G_μ(α − γ) + γ for a symmetric pair; large, usually.

        Dong–Roth–Su Theorem 3.4.
        """
        return 0.56 * self.third_central / (self.variance * sqrt(self.variance * rounds))


def moments(p: ArrayLike, q: ArrayLike) -> Moments:
    """Moments of the privacy loss ln(p/q) of two distributions on the same outcomes, for central-limit values.

    >>> round(moments([0.6, 0.4], [0.4, 0.6]).kl, 6)
    0.081093
    """
    mass, loss = _mass_and_loss(p, q)
    kl = _mean(mass, loss)
    absolute = np.abs(loss) ** 3, np.abs(loss - kl) ** 3
    return Moments(kl, _mean(mass, loss**2), _mean(mass, absolute[0]), _mean(mass, absolute[1]))


def clt_mu(p: ArrayLike, q: ArrayLike, rounds: int) -> float:
    """The μ that the central limit gives `rounds` releases of a pair p, q of distributions. Dong–Roth–Su Theorem 3.4.

    √rounds·(KL(P‖Q) + KL(Q‖P))/σ, σ the loss's deviation under p; 2·kl/σ when symmetric.

    >>> round(clt_mu([0.6, 0.4], [0.4, 0.6], 100), 6)
    4.082483
    """
    whole(rounds=rounds)
    forward, backward = moments(p, q), moments(q, p)
    if forward.variance <= 0:  # P = Q, up to rounding
        return 0.0
    return sqrt(rounds / forward.variance) * (forward.kl + backward.kl)


def clt_delta(p: ArrayLike, q: ArrayLike, rounds: int, epsilon: float) -> float:
    """δ(ε) of `rounds` releases of a pair p, q by the central limit, `clt_mu`: an approximation, no certificate."""
    return Tradeoff.gaussian(clt_mu(p, q, rounds)).delta(epsilon)


def clt_epsilon(p: ArrayLike, q: ArrayLike, rounds: int, delta: float) -> float:
    """ε(δ) of `rounds` releases of a pair p, q by the central limit, `clt_mu`: an approximation, no certificate."""
    return Tradeoff.gaussian(clt_mu(p, q, rounds)).epsilon(delta)


@dataclass(frozen=True, slots=True)
class _Edgeworth:
    """A sum's density φ(z)/σ·(1 + c₃He₃(z) + c₄He₄(z) + c₆He₆(z)), z = (l − m)/σ: second order in 1/√rounds."""

    mean: float
    deviation: float
    c3: float
    c4: float
    c6: float

    @staticmethod
    def of(mass: Vector, loss: Vector, rounds: int) -> _Edgeworth:
        """The expansion of the sum of `rounds` losses, each of the values `loss` with probabilities `mass`."""
        mean = _mean(mass, loss)
        variance, third, fourth = (_mean(mass, (loss - mean) ** k) for k in (2, 3, 4))
        if not variance > 0:
            raise FedprivError("p and q must differ, else there is no loss to expand")
        skewness = third / variance**1.5 / sqrt(rounds)
        excess = (fourth / variance**2 - 3) / rounds
        return _Edgeworth(rounds * mean, sqrt(rounds * variance), skewness / 6, excess / 24, skewness**2 / 72)

    def above(self, loss: Vector) -> Vector:
        """Pr[L > loss] of the summed loss L, expanded: Φ(−z) + φ(z)·(c₃He₂ + c₄He₃ + c₆He₅)."""
        z = (loss - self.mean) / self.deviation
        h = _hermite_densities(z)
        return np.asarray(ndtr(-z) + self.c3 * h[2] + self.c4 * h[3] + self.c6 * h[5])

    def hockey_stick(self, epsilon: float) -> float:
        """δ at ε by the expansion of the summed loss L: E max(1 − e^{ε−L}, 0), integrated by parts.

        J_k = ∫ e^{ε−l}·He_k·φ has J_k = He_{k−1}(z)·φ(z) − σ·J_{k−1}.
        """
        z = (epsilon - self.mean) / self.deviation
        h, sigma = _hermite_densities(np.float64(z)), self.deviation
        j = [float(np.exp(epsilon - self.mean + sigma**2 / 2 + log_ndtr(-z - sigma)))]
        for k in range(1, 6):
            j.append(float(h[k - 1]) - sigma * j[-1])
        return float(ndtr(-z)) - j[0] + sigma * (self.c3 * j[2] + self.c4 * j[3] + self.c6 * j[5])


def edgeworth_delta(p: ArrayLike, q: ArrayLike, rounds: int, epsilon: float) -> float:
    """Approximate δ(ε) of `rounds` releases of a pair p, q: E_Q max(1 − e^{ε−L}, 0) by L's cumulants.

    L is the sum of ln(q/p). Zheng et al. 2020; [F] Remark 13.

    The direction is that of `Tradeoff.between(p, q).delta`.

    >>> round(edgeworth_delta([0.6, 0.4], [0.4, 0.6], 50, 2.0), 3), round(clt_delta([0.6, 0.4], [0.4, 0.6], 50, 2.0), 3)
    (0.645, 0.653)
    """
    whole(rounds=rounds)
    real(epsilon=epsilon)
    return min(1.0, max(0.0, _Edgeworth.of(*_mass_and_loss(q, p), rounds).hockey_stick(epsilon)))


def edgeworth_epsilon(p: ArrayLike, q: ArrayLike, rounds: int, delta: float) -> float:
    """Approximate ε(δ) of `rounds` releases of a pair p, q: where `edgeworth_delta` crosses δ.

    Sought between 0 and the largest loss.
    """
    probability(delta=delta)
    mass, loss = _mass_and_loss(q, p)
    expansion = _Edgeworth.of(mass, loss, rounds)

    def excess(epsilon: float) -> float:
        """How far δ at an ε, by the expansion, exceeds the one asked for: its root is the answer."""
        return expansion.hockey_stick(epsilon) - delta

    largest = rounds * float(loss.max())
    if excess(0.0) <= 0:
        return 0.0
    if excess(largest) >= 0:
        return largest
    from scipy.optimize import brentq  # a tenth of a second to load

    return float(brentq(excess, 0.0, largest, xtol=1e-12))


def edgeworth_tradeoff(p: ArrayLike, q: ArrayLike, rounds: int, alpha: ArrayLike) -> Any:
    """Type II errors at type I errors α of `rounds` releases of a pair p, q, by Edgeworth's expansion, no certificate.

    Thresholds h give (Pr_P[L > h], Pr_Q[L ≤ h]), both expanded.

    >>> round(float(edgeworth_tradeoff([0.6, 0.4], [0.4, 0.6], 50, 0.05)), 3)
    0.112
    """
    whole(rounds=rounds)
    mass_p, loss = _mass_and_loss(p, q)
    null, other = _Edgeworth.of(mass_p, -loss, rounds), _Edgeworth.of(*_mass_and_loss(q, p), rounds)
    spread = 9 * max(null.deviation, other.deviation)
    h = np.linspace(max(null.mean, other.mean) + spread, min(null.mean, other.mean) - spread, 20_001)
    rising = np.maximum.accumulate(np.clip(null.above(h), 0, 1))  # an expansion need not be monotone
    return np.interp(np.asarray(alpha, dtype=float), rising, np.clip(1 - other.above(h), 0, 1))


def _hermite_densities(z: Any) -> list[Any]:
    """Hermite polynomials times the normal density, He_k(z)·φ(z) for k = 0..5: the terms of an Edgeworth expansion."""
    h = [np.exp(-z * z / 2) / sqrt(2 * np.pi)]
    h.append(z * h[0])
    for k in range(1, 5):
        h.append(z * h[k] - k * h[k - 1])
    return h


def _mass_and_loss(p: ArrayLike, q: ArrayLike) -> tuple[Vector, Vector]:
    """The probabilities p, and the losses ln(p/q), to be expanded; an outcome that only one of both has is refused."""
    mass, other = np.asarray(p, dtype=float).ravel(), np.asarray(q, dtype=float).ravel()
    if mass.shape != other.shape or not (mass > 0).all() or not (other > 0).all():
        raise FedprivError("p and q must give mass to the same outcomes: an expansion needs a finite loss")
    return mass, np.log(mass / other)


def _mean(mass: Vector, values: Vector) -> float:
    """The mean Σ mass·value of values of a loss, by plain sums: those of BLAS depend on how many threads it has."""
    return float((mass * values).sum())
