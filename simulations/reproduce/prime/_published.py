"""[M] Figures 1 and 2 as printed and as released: what the paper's own algorithm can do, and what its code printed.

As printed, its noise hides what it looks for: see `covariance_noise`. The directions it filters along are then noise,
corrupted records stay, and the best that can come of it is the mean of all records plus the noise of that mean.
"""

from __future__ import annotations

from math import ceil, hypot, log, sqrt
from typing import NamedTuple

SHIFT = 1.5  # of every coordinate of a corrupted record
UNLUCKY = 0.1  # ζ, how often the paper's guarantee may fail
RELEASED = {10: 0.063, 50: 0.014, 100: 0.018}  # the authors' code, by d: α = .05, ε = 20, δ = .01, n = 10⁶
EMPIRICAL = {10: 0.237, 50: 0.529, 100: 0.749}  # the mean of all records, there
RELEASED_BY_N = {10**4: 0.116, 10**5: 0.040, 10**6: 0.030}  # α = .1, ε = 100, δ = .01, d = 50


class Setting(NamedTuple):
    """One point of a figure."""

    n: int  # records
    d: int  # numbers in each
    corruption: float  # α
    epsilon: float
    delta: float = 0.01


class Printed(NamedTuple):
    """The budget of [M] Algorithm 10, of the 0.99ε and 0.99δ that Algorithm 9 leaves it, and the width of the cube."""

    epsilon_1: float  # of each release of a mean
    delta_1: float
    epsilon_2: float  # of each release of a covariance
    delta_2: float
    width: float  # B

    @staticmethod
    def of(at: Setting) -> Printed:
        """What [M] Algorithms 9 and 10 give a setting: T₁ = ⌈ln(B√d)⌉ epochs of T₂ = ⌈ln d⌉ steps, B = 8√ln(dn/ζ)."""
        epsilon, delta = 0.99 * at.epsilon, 0.99 * at.delta
        width = 8 * sqrt(log(at.d * at.n / UNLUCKY))
        epochs, steps = ceil(log(width * sqrt(at.d))), max(ceil(log(at.d)), 1)
        second = min(0.9, epsilon) / (4 * sqrt(10 * epochs * steps * log(4 / delta)))
        return Printed(epsilon / (4 * epochs), delta / (4 * epochs), second, delta / (20 * epochs * steps), width)


def covariance_noise(at: Setting) -> float:
    """The spectral norm √(2d)·σ of the noise on [M]'s covariance: σ = 4B²d√(2 ln(1.25/δ₂))/(nε₂).

    >>> round(covariance_noise(Setting(10**6, 100, 0.05, 20)), -2), round(signal(Setting(10**6, 100, 0.05, 20)), 1)
    (6700.0, 10.7)
    """
    own = Printed.of(at)
    deviation = 4 * own.width**2 * at.d * sqrt(2 * log(1.25 / own.delta_2)) / (at.n * own.epsilon_2)
    return sqrt(2 * at.d) * deviation


def signal(at: Setting) -> float:
    """What corrupted records add to the covariance along their shift, α(1 − α)·1.5²·d: what [M]'s filter looks for."""
    return at.corruption * (1 - at.corruption) * SHIFT**2 * at.d


def printed_error(at: Setting) -> float:
    """The ℓ2 error of PRIME as [M] prints it, at best that of the mean of all records: the curve "as printed".

    It is of their shift, of noise 2B√(2d ln(1.25/δ₁))/(nε₁) a coordinate, and of sampling.
    """
    own = Printed.of(at)
    deviation = 2 * own.width * sqrt(2 * at.d * log(1.25 / own.delta_1)) / (at.n * own.epsilon_1)
    return hypot(at.corruption * SHIFT * sqrt(at.d), deviation * sqrt(at.d), sqrt(at.d / at.n))
