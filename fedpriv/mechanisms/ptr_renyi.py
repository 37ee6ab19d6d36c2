"""What the paper proves of propose-test-release: Theorems 4.2, 4.3 and 4.4 of [P], with its slips corrected.

In Theorem 4.2 the Laplace term is 1/b (not e^{1/b}) and the Gaussian one √(2 ln(1.25/δ))/σ; the first Rényi weight of
the Laplace noise is α/(2α − 1); and Theorem 4.4's B₁, B₂ carry the 1/σ₁² of the appendix, (43) and (44). σ₁ is `noise`
and σ₂ = `noise`·`bound`, both in units of R.
"""

from __future__ import annotations

from functools import cache
from math import expm1, inf, lgamma, log, log1p, sqrt

import numpy as np

from fedpriv.bounds.renyi import Curve
from fedpriv.errors import FedprivError, above, probability
from fedpriv.mechanisms._settings import Tested

SMALLEST_SIGMA = 4.0  # of Theorem 4.4, in units of R
legendre_nodes = cache(np.polynomial.legendre.leggauss)  # 256 of them take as long to find as numpy to load


class ConditionNotMet(FedprivError):
    """A theorem was asked about what it does not speak of."""


def theorem_4_2(ptr: Tested, delta: float) -> float:
    """PTR's ε at δ₀ + δ by [P] Theorem 4.2: 1/b + √(2 ln(1.25/δ))/σ₁. Of the Laplace test, as 4.4 is.

    Its second term is proved below 1 only ([L]'s calibration).

    >>> from fedpriv.mechanisms import Ptr
    >>> round(theorem_4_2(Ptr(clip=1, bound=0.5, noise=10, test_noise=5, failure=1e-5), 1e-5), 5)
    0.68448
    """
    probability(delta=delta)
    return 1 / laplace_scale(ptr) + gaussian_term(ptr, delta)


def gaussian_term(ptr: Tested, delta: float) -> float:
    """√(2 ln(1.25/δ))/σ₁, the sum's share of ε in [P] Theorem 4.2: a guarantee where it is below 1."""
    return sqrt(2 * log(1.25 / delta)) / ptr.noise if delta > 0 else inf


def theorem_4_3(ptr: Tested, alpha: float) -> float:
    """PTR's Rényi divergence of order α by [P] Theorem 4.3, the worse of test failed and test passed.

    D_α ≤ max(ln((1 − δ₀)·e^{(α−1)α/2σ₁²} + δ₀·e^{(α−1)α/2σ₂²})/(α − 1), α/2σ₁² + D_α of the Laplace noise). Where the
    test is a coin its own divergence, at most αμ²/2, is in the place of the noise's (docs/proofs/testing.md).

    >>> from fedpriv.mechanisms import Ptr
    >>> round(theorem_4_3(Ptr(clip=1, bound=0.5, noise=4, test_noise=2, failure=1e-3), 32), 8)
    3.77716918
    """
    above("1", 1.0, alpha=alpha)
    summed = alpha / (2 * ptr.noise**2)
    wrong = alpha / (2 * (ptr.noise * ptr.bound) ** 2)
    extra = (alpha - 1) * (wrong - summed)
    large = log(ptr.failure) + extra + log1p((1 - ptr.failure) / ptr.failure * np.exp(-min(extra, 700.0)))
    mixed = log1p(ptr.failure * expm1(extra)) if extra < 1 else large
    tested = laplace_divergence(laplace_scale(ptr), alpha) if ptr.step is None else alpha * ptr.step**2 / 2
    return max(summed + mixed / (alpha - 1), summed + tested)


def laplace_scale(ptr: Tested) -> float:
    """b of PTR's test, for what [P] proves of Laplace noise: a coin is refused, of which the paper knows nothing."""
    if ptr.test_noise is None:
        raise ConditionNotMet("[P] has a test by Laplace noise, and this is a coin: test_noise must be given")
    return float(ptr.test_noise)


def laplace_divergence(scale: float, alpha: float) -> float:
    """D_α of Lap(0, b) and Lap(1, b): what PTR's noisy test adds in [P] Theorem 4.3.

    ln(α/(2α−1)·e^{(α−1)/b} + (α−1)/(2α−1)·e^{−α/b})/(α − 1).
    """
    share = alpha / (2 * alpha - 1)
    return float(np.logaddexp(log(share) + (alpha - 1) / scale, log1p(-share) - alpha / scale)) / (alpha - 1)


def theorem_4_4(ptr: Tested, rate: float, alpha: float) -> float:
    """PTR's Rényi divergence on a Poisson sample by [P] Theorem 4.4, ln(max(B₀, B₁, B₂))/(α − 1), (42) to (44).

    Refused where its conditions do not hold.

    With A = q·Lap(1)/((1−q)·Lap(0) + q·Lap(1)) the bracket of B₁ is E[(μ/μ₀)^α·A²], and B₂ is B₁ at 1 − α: no
    differences are left to cancel.

    >>> from fedpriv.mechanisms import Ptr
    >>> theorem_4_4(Ptr(clip=1, bound=0.5, noise=4, test_noise=2, failure=1e-3), 0.01, 2)
    Traceback (most recent call last):
    fedpriv.mechanisms.ptr_renyi.ConditionNotMet: [P] Theorem 4.4 needs σ₁ ≥ σ₂ ≥ 4, got σ₂ = noise·bound = 2
    """
    reason = condition_of_4_4(ptr, rate, alpha)
    if reason:
        raise ConditionNotMet(reason)
    twice = 2 * alpha * (alpha - 1)
    inverse = (1 - ptr.failure) / ptr.noise**2 + ptr.failure / (ptr.noise * ptr.bound) ** 2
    weight = twice / ptr.noise**2
    tested = max(_log_moment(laplace_scale(ptr), rate, power, weight) for power in (alpha, 1 - alpha))
    return max(log1p(rate**2 * twice * inverse), tested) / (alpha - 1)


def condition_of_4_4(ptr: Tested, rate: float, alpha: float) -> str | None:
    """The first condition of [P] Theorem 4.4 that settings and order break, as a sentence; None where all hold."""
    above("1", 1.0, alpha=alpha)
    above("0", 0.0, rate=rate)
    probability(rate=rate)
    sigma, decay = ptr.noise * ptr.bound, np.exp(-1 / laplace_scale(ptr))
    if not sigma >= SMALLEST_SIGMA:
        return f"[P] Theorem 4.4 needs σ₁ ≥ σ₂ ≥ 4, got σ₂ = noise·bound = {sigma:g}"
    highest = decay / (4 + decay)
    if not rate <= highest:
        return f"[P] Theorem 4.4 needs q ≤ e^(−1/b)/(4 + e^(−1/b)) = {highest:.6g}, got q = {rate:g}"
    share = rate / (rate + (1 - rate) * decay)
    room = log1p(1 / (share * (alpha - 1)))
    first = sigma**2 * room / 2 - 2 * log(sigma)
    spread = room + log(share * alpha) + 1 / (2 * sigma**2)
    second = (sigma**2 * room**2 / 2 - log(5) - 2 * log(sigma)) / spread if spread > 0 else inf
    if not alpha <= min(first, second):
        form = "σ₂²L/2 − 2 ln σ₂" if first <= second else "(σ₂²L²/2 − ln 5 − 2 ln σ₂)/(L + ln(q'α) + 1/2σ₂²)"
        return f"[P] Theorem 4.4 needs α ≤ {form} = {min(first, second):.6g}, got α = {alpha:g}"
    return None


def _log_moment(scale: float, rate: float, power: float, weight: float) -> float:
    """B₁ or B₂ of [P] Theorem 4.4 (sampled PTR), in logs: ln E[(μ/μ₀)^power·(1 + weight·A²)] of Laplace noise.

    μ₀ = Lap(0, b), μ = (1 − q)·μ₀ + q·Lap(1, b); tails in closed form.
    """
    points, weights = legendre_nodes(256)
    place = (points + 1) / 2
    loss = np.concatenate(([-1 / scale, 1 / scale], (2 * place - 1) / scale))
    mass = np.concatenate(([0.5, np.exp(-1 / scale) / 2], weights / 2 * np.exp(-place / scale) / (2 * scale)))
    log_ratio = np.log1p(rate * np.expm1(loss))
    odd = rate * np.exp(loss - log_ratio)
    return float(log1p(np.sum(mass * np.expm1(power * log_ratio + np.log1p(weight * odd**2)))))


def black_box(curve: Curve, rate: float, alpha: int) -> float:
    """The Rényi divergence of a Poisson-sampled release (PTR's) from its own, α whole: Zhu and Wang 2019, Theorem 5.

    ln((1−q)^{α−1}(αq − q + 1) + C(α,2)q²(1−q)^{α−2}e^{D₂} + 3·Σ_{l≥3} C(α,l)(1−q)^{α−l}q^l e^{(l−1)D_l})/(α − 1).

    >>> black_box(lambda alpha: alpha / 2, 0.01, 2) < 2e-4
    True
    """
    return _amplified(curve, rate, alpha, 3.0)


def black_box_lower(curve: Curve, rate: float, alpha: int) -> float:
    """The least that any sampling formula in divergences alone may give: `black_box` with 1 for 3 (Zhu, Wang 2019)."""
    return _amplified(curve, rate, alpha, 1.0)


def _amplified(curve: Curve, rate: float, alpha: int, factor: float) -> float:
    """`black_box`'s formula with `factor` for its 3: the divergence of order α of a Poisson-sampled release.

    The sum is taken less 1, term by term: with D_l = 0 and a factor of 1 the terms are those of (1 − q + q)^α.
    """
    if rate == 1:
        return curve(alpha)
    logs = []
    for many in range(2, alpha + 1):
        choose = lgamma(alpha + 1) - lgamma(many + 1) - lgamma(alpha - many + 1)
        base = choose + (alpha - many) * log1p(-rate) + many * log(rate)
        grown = (many - 1) * curve(many) + (log(factor) if many > 2 else 0.0)
        logs.append(base + grown + log(-expm1(-grown)) if grown > 0 else -inf)
    return float(np.logaddexp(0.0, np.logaddexp.reduce(logs))) / (alpha - 1)
