"""Vectors under ‖x‖₂ ≤ clip: bounds in which the dimension does not appear. Proofs: docs/proofs/vectors.md.

[F] Theorem 7 adds up d·M pure ε's and certifies nothing at d = 10⁵. But the coordinates share one budget, Σ x_j² ≤ c²:
a coordinate that is μ_j-GDP with μ_j ≤ L·|x_j − x'_j| makes a vector that is 2cL-GDP at any d. Two bounds on the input
matter: the norm c (`clip`) carries the privacy, the largest coordinate r (`peak`) only the alphabet.

Each class says for one mechanism: `mu`, a Gaussian-DP parameter of one release of the whole vector, and `renyi`, a
certified curve of Rényi divergences of many, which is tighter once there are many votes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import inf, pi, sqrt
from typing import Protocol

import numpy as np
from scipy.special import ndtri, ndtri_exp

from fedpriv.bounds import renyi
from fedpriv.bounds._coin_slope import coin_slope
from fedpriv.errors import positive, whole

OUTWARD = 1 + 2.0**-44
CHAINED = 256  # trials up to which the chain of `Votes.mu` is worth its time


class VectorBound(Protocol):
    """What a mechanism knows about whole vectors of its messages."""

    @property
    def mu(self) -> float:
        """A Gaussian-DP parameter of one message, a whole vector of norm `clip`; ∞ where there is none."""

    def renyi(self, rounds: int) -> renyi.Curve | None:
        """The certified Rényi curve of `rounds` messages, whole vectors of norm `clip`; None where there is none."""


def theorem_a(*, clip: float, peak: float, scale: float, trials: int = 1) -> float:
    """Theorem A: μ of a message of votes (B + x_j)/2B, ‖x‖₂ ≤ c, |x_j| ≤ r < B, at any d.

    μ = 2√M·(c/r)·Φ⁻¹((B + r)/2B).

    >>> round(theorem_a(clip=0.1, peak=0.1, scale=10), 13)
    0.0250669390161
    """
    steep = max(float(-ndtri((scale - peak) / (2 * scale))), sqrt(2 * pi) * peak / (2 * scale))  # Φ⁻¹(½ + y) ≥ √(2π)·y
    return 2 * sqrt(trials) * (clip / peak) * steep * OUTWARD  # though ½ + y be rounded to ½


def published_theorem_7(pure: float, dimension: int) -> float:
    """The μ that [F] Theorem 7 prints for d coordinates, each ε-DP, shown beside ours: −2Φ⁻¹(1/(1 + e^{dε})).

    Worked out in logarithms.

    For M votes of scale B it is ε = M·ln((B + c)/(B − c)).

    >>> round(published_theorem_7(np.log(10.1 / 9.9), dimension=100_000), 2)  # c = .1, B = 10, M = 1
    126.33
    """
    return -2 * float(ndtri_exp(-np.logaddexp(0.0, dimension * pure)))


@dataclass(frozen=True, kw_only=True)
class Votes:
    """M votes a coordinate with probability (B + x)/2B."""

    clip: float  # c
    peak: float  # r
    scale: float  # B
    trials: int = 1  # M

    @cached_property
    def mu(self) -> float:
        """The Gaussian-DP μ of one message of votes: Theorem A, or (many trials) the chain of Theorem B without coins.

        That is 2c·sup ∂Φ⁻¹(P(votes > k))/∂x.
        """
        by_votes = theorem_a(clip=self.clip, peak=self.peak, scale=self.scale, trials=self.trials)
        if not 1 < self.trials <= CHAINED:
            return by_votes
        return min(
            by_votes, 2 * self.clip * coin_slope(0, self.trials, self.peak, self.scale, tolerance=1e-5)[1] * OUTWARD
        )

    def renyi(self, rounds: int) -> renyi.Curve:
        """The certified Rényi curve of `rounds` messages of votes: each coordinate at most g_α·(x_j − x'_j)²."""
        return renyi.vector_curve(
            clip=self.clip, peak=self.peak, scale=self.scale, trials=self.trials, rounds=rounds
        )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class TernaryVotes:
    """A vote with probability A/B, none otherwise."""

    clip: float  # c
    peak: float  # r
    spread: float  # A
    scale: float  # B

    @property
    def mu(self) -> float:
        """The Gaussian-DP μ of one ternary message: 2cL, L the largest slope of k(x) = Φ⁻¹((A + x)/2B), at −r.

        L = 1/(2B·φ(k(−r))).

        >>> round(TernaryVotes(clip=0.1, peak=0.1, spread=0.25, scale=0.5).mu, 12)
        0.857784570975
        """
        edge = float(ndtri((self.spread - self.peak) / (2 * self.scale)))
        density = np.exp(-edge * edge / 2) / sqrt(2 * np.pi)
        return float(2 * self.clip / (2 * self.scale * density)) * OUTWARD

    def renyi(self, rounds: int) -> renyi.Curve:
        """The certified Rényi curve of `rounds` ternary messages: each coordinate at most g_α·(x_j − x'_j)².

        Erasures are counted.
        """
        keep = self.spread / self.scale
        return renyi.vector_curve(clip=self.clip, peak=self.peak, scale=self.spread, keep=keep, rounds=rounds)


@dataclass(frozen=True, kw_only=True)
class NoisyVotes:
    """The signs of coordinates with Gaussian noise of standard deviation s."""

    clip: float  # c
    peak: float  # r
    noise: float  # s

    @property
    def mu(self) -> float:
        """The Gaussian-DP μ of one message of noisy signs, 2c/s: they are what is left of the Gaussian's message."""
        return 2 * self.clip / self.noise * OUTWARD

    def renyi(self, rounds: int) -> renyi.Curve:
        """The certified Rényi curve of `rounds` messages of noisy signs: a vote's bias has slope ≤ √(2/π)/s."""
        return renyi.noisy_sign_curve(clip=self.clip, peak=self.peak, noise=self.noise, rounds=rounds)


@dataclass(frozen=True, kw_only=True)
class AdditiveNoise:
    """Gaussian noise, continuous or discrete, on a vector that moves by at most `shift` standard deviations."""

    shift: float
    continuous: bool = True  # else discrete

    @property
    def mu(self) -> float:
        """The Gaussian-DP μ of one noised message: the shift; ∞ for discrete noise, which has none.

        The discrete Gaussian is truncated nowhere but curved less than the Gaussian.
        """
        return self.shift * OUTWARD if self.continuous else inf

    def renyi(self, rounds: int) -> renyi.Curve:
        """The certified Rényi curve of `rounds` noised messages: α·shift²/2 each, exact for the continuous Gaussian.

        It is a bound for the discrete one (Canonne et al. 2020).
        """
        rate = rounds * self.shift**2 / 2 * OUTWARD
        return lambda alpha: alpha * rate


def explicit_spans(*, clip: float, peak: float, dimension: int) -> list[tuple[float, int]]:
    """The inputs of witnesses under ‖x‖₂ ≤ clip: (a, k) for ±a on k ≤ d coordinates, a = c/√k ≤ r.

    >>> explicit_spans(clip=1.0, peak=1.0, dimension=4)
    [(1.0, 1), (0.5, 4)]
    """
    positive(clip=clip, peak=peak)
    whole(dimension=dimension)
    ratio = min(clip / peak, sqrt(dimension))  # past it the square overflows, and all coordinates are too few anyway
    fewest = max(int(np.ceil(ratio**2 * (1 - 1e-12))), 1)
    if fewest >= dimension:
        return [(min(peak, clip / sqrt(dimension)), dimension)]
    middle = int(sqrt(fewest * dimension))
    counts = sorted(
        {fewest, middle, dimension} if middle > 4 * fewest and dimension > 4 * middle else {fewest, dimension}
    )
    return [(min(clip / sqrt(k), peak), k) for k in counts]
