"""How far an input may be moved: certificates from a curve. Proofs: docs/proofs/certified.md.

Noise makes inputs x and x + a hard to tell apart: let T be a tradeoff curve below that of their noised versions, both
ways. A score in [0, 1] is a test, so an expected score of m becomes T(1 − m) at the least and 1 − T(m) at the most. A
class of at least `lower` stays ahead of one of at most `upper` wherever T(1 − lower) > 1 − T(upper). PixelDP's check
([S] equation 4) is this for the curve of (ε, δ), and a little weaker; Cohen's radius is this for the Gaussian curve.
"""

from __future__ import annotations

from collections.abc import Callable
from math import exp, inf, log, sqrt

from scipy.special import ndtri

from fedpriv.certified._cube import Cube
from fedpriv.errors import FedprivError, at_least_zero, positive, probability

Curve = Callable[[float], float]
SAFE = 1e-12  # relative; roundings on the way are far smaller


def certifies(curve: Curve, lower: float, upper: float) -> bool:
    """Whether a prediction stands under noise of that curve: a class of at least `lower` stays ahead of `upper`.

    That is, of one of at most `upper`, wherever the input is moved to.

    >>> from fedpriv.curves.tradeoff import Tradeoff
    >>> certifies(Tradeoff.gaussian(1.28), 0.9, 0.1), certifies(Tradeoff.gaussian(1.29), 0.9, 0.1)
    (True, False)
    """
    probability(lower=lower, upper=upper)
    return lower > upper and curve(1 - lower) + curve(upper) > 1 + SAFE


def robustness_epsilon(lower: float, upper: float, delta: float = 0.0) -> float:
    """The ε_r up to which a prediction stands by PixelDP's check, [S] equation 4 (Lemma 1); 0 where it never does.

    The largest with lower > e^{2ε_r}·upper + (1 + e^{ε_r})·δ_r.

    >>> round(robustness_epsilon(0.9, 0.1), 6), robustness_epsilon(0.4, 0.5)
    (1.098612, 0.0)
    """
    probability(lower=lower, upper=upper, delta=delta)
    if not lower > upper + 2 * delta:
        return 0.0
    if upper == 0:
        return log(lower / delta - 1) if delta > 0 else inf
    root = (sqrt(delta * delta + 4 * upper * (lower - delta)) - delta) / (2 * upper)
    return log(root) * (1 - SAFE)


def gaussian_radius(lower: float, upper: float, noise: float) -> float:
    """The certified ℓ2 radius of a prediction under Gaussian noise: σ/2·(Φ⁻¹(lower) − Φ⁻¹(upper)).

    Cohen, Rosenfeld and Kolter 2019, Theorem 1.

    >>> round(gaussian_radius(0.9, 0.1, 0.5), 6)
    0.640776
    """
    probability(lower=lower, upper=upper)
    positive(noise=noise)
    if not lower > upper:
        return 0.0
    return noise / 2 * float(ndtri(lower) - ndtri(upper)) * (1 - SAFE)


def pixeldp_radius(lower: float, upper: float, noise: float, delta: float, epsilon: float) -> float:
    """The certified ℓ2 radius of a prediction by PixelDP at a chosen ε_r ≤ 1: σ·ε_r/√(2 ln(1.25/δ_r)), or 0.

    0 where equation 4 fails. Lecuyer et al. 2019.

    >>> round(pixeldp_radius(0.9, 0.1, 0.5, 1e-5, 1.0), 6), pixeldp_radius(0.6, 0.4, 0.5, 1e-5, 1.0)
    (0.103203, 0.0)
    """
    positive(noise=noise, delta=delta, epsilon=epsilon)
    if not epsilon <= 1:
        raise FedprivError(f"epsilon must be at most 1, where its calibration of the Gaussian holds, got {epsilon}")
    if not lower > exp(2 * epsilon) * upper + (1 + exp(epsilon)) * delta:
        return 0.0
    return noise * epsilon / sqrt(2 * log(1.25 / delta)) * (1 - SAFE)


def laplace_radius(lower: float, upper: float, noise: float, dimension: int) -> float:
    """The certified ℓ∞ radius of a prediction under Laplace noise on each coordinate: the larger of two curves'.

    As [S] has it, the noise is d·r/b-DP at radius r, so b·ε_r/d. As what it is, d coordinates each moved by r, it is
    composed by the accountant: the radius falls with √d and not with d.

    >>> pure, both = 0.5 * robustness_epsilon(0.99, 0.01) / 784, laplace_radius(0.99, 0.01, 0.5, 784)
    >>> round(pure, 5), round(both, 4)
    (0.00147, 0.042)
    """
    positive(noise=noise, dimension=dimension)
    pure = robustness_epsilon(lower, upper) / dimension
    return noise * max(pure, Cube(dimension).shift(lower, upper)) * (1 - SAFE)


def stobatch_published(epsilon: float, *, noise: float, dimension: int, hidden: float) -> float:
    """The ℓ∞ radius that [S] prints of StoBatch, κφ/(κ + φ) = b·ε_r/(Δ_x + Δ_h/2): Corollary 1, equation 13.

    Here b = Δ_R/(m·ε₁), and Δ_x = d for ℓ∞.

    As printed: with the noise of training, whatever was drawn at inference. `hidden` is Δ_h, which [S] puts at β‖θ₁‖_∞.
    """
    at_least_zero(epsilon=epsilon)
    positive(noise=noise, dimension=dimension, hidden=hidden)
    return noise * epsilon / (dimension + hidden / 2)
