"""Mechanisms that send votes: a coordinate becomes a count of coin tosses whose bias follows the value.

All of them are Binomial(M, p(x)) with p(x) rising and p(−x) = 1 − p(x), so one pair serves them all: M tosses with
p(r) against M tosses with p(−r), r the largest coordinate. [F] Theorem 3.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import ceil, log2, sqrt
from typing import Annotated, ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike
from scipy.special import ndtr

from fedpriv._base.arrays import Symbols, Vector
from fedpriv.bounds import vectors
from fedpriv.bounds.coins import log_binomial
from fedpriv.curves.atoms import ROUNDING, Atoms
from fedpriv.curves.tradeoff import Tradeoff
from fedpriv.errors import FedprivError, above, finite_inputs, limited, positive, real, whole
from fedpriv.mechanisms._grid import information
from fedpriv.mechanisms._settings import Peak, fill_peak
from fedpriv.randomness import exact as sampling_exact
from fedpriv.randomness.bits import Probabilities
from fedpriv.settings import check_fields
from fedpriv.trust import Adjacency

MOST_TRIALS = limited("must be at most 2^20 = 1048576", most=1 << 20)
STILL_RANDOM = limited("must be below 36, where a vote is no longer random", below=36)


@runtime_checkable
class Votes(Protocol):
    """Whatever sends votes of its own: what counts them, and what audits them, needs nothing but their probability."""

    def chance(self, x: Vector) -> Vector:
        """The probability that a client's vote is for +, at each coordinate x of its update within the peak."""


@dataclass(frozen=True, kw_only=True)
class Binomial:
    """M votes a coordinate, each + with probability (B + x)/2B; what is sent is their number. [F] Algorithm 2."""

    clip: Annotated[float, positive, "c, the ℓ2 norm of an input"]
    scale: Annotated[float, real, "B, how little one vote says: above peak"]
    trials: Annotated[int, whole, MOST_TRIALS, "M, votes a coordinate"]
    peak: Peak = None  # type: ignore[assignment]  # filled in

    effects: ClassVar[Mapping[str, int]] = {"clip": +1, "peak": +1, "scale": -1, "trials": +1}

    def __post_init__(self) -> None:
        check_fields(self)
        fill_peak(self)
        above("peak", self.peak, scale=self.scale)

    def chance(self, x: Vector) -> Vector:
        """The probability that a vote is for +, (B + x)/2B at each coordinate x of an update, |x| ≤ r."""
        return (self.scale + x) * (0.5 / self.scale)

    @property
    def alphabet(self) -> range:
        """The symbols that one coordinate of a client's message may be: 0 to M votes for +."""
        return range(self.trials + 1)

    @property
    def centre(self) -> Fraction:
        """The mean symbol of an update of 0, where majority votes tie: half of the votes."""
        return Fraction(self.trials, 2)

    @cached_property
    def entropy(self) -> float:
        """Bits of information in one coordinate of a message at x = 0, the most there are, for a run's header."""
        return information(log_binomial(self.trials, 0.5, 0, self.trials))

    @property
    def bits(self) -> float:
        """Bits that one coordinate of a client's message takes on the wire: those of M + 1 counts."""
        return float(ceil(log2(self.trials + 1)))

    def encode(self, x: ArrayLike, rng: Generator) -> Symbols:
        """A client's message for x: the number of its votes for + in each coordinate, in the smallest unsigned type."""
        return votes_drawn(self.trials, self.chance, self.peak, x, rng)

    def decode(self, total: ArrayLike, n: int) -> Vector:
        """The server's unbiased mean of n clients' updates, from their votes' sum: B·(2Z/M − 1), Z a client's mean."""
        return np.asarray(self.scale * (2 * np.asarray(total, dtype=float) / (n * self.trials) - 1))

    def between(self, x: float, y: float) -> Tradeoff:
        """The tradeoff curve between messages for x and for y, one coordinate: what witnesses and audits ask."""
        finite_inputs(x, y)
        return votes_between(self.trials, self.chance(np.clip([float(x), float(y)], -self.peak, self.peak)))

    def tradeoff(self, adjacency: Adjacency = "replace") -> Tradeoff:
        """The worst pair of one coordinate, r against −r: the curve that certifies a message's ε.

        >>> round(Binomial(clip=0.1, scale=1, trials=16).tradeoff().mu, 12)
        0.814388173762
        """
        return self.between(self.peak, -self.peak)

    def vector(self, dimension: int, adjacency: Adjacency = "replace") -> vectors.Votes:
        """The bound that certifies ε for whole ℓ2-clipped vectors of votes, whatever their dimension."""
        clip = _norm_of_votes(self, self.scale, dimension)
        return vectors.Votes(clip=clip, peak=self.peak, scale=self.scale, trials=self.trials)


@dataclass(frozen=True, kw_only=True)
class StochasticSign:
    """One vote a coordinate: +1 with probability (A + x)/2A, else −1. [F] Definition 4; ε = ln((A+r)/(A−r))."""

    clip: Annotated[float, positive, "c, the ℓ2 norm of an input"]
    scale: Annotated[float, real, "A, how little one vote says: above peak"]
    peak: Peak = None  # type: ignore[assignment]  # filled in

    effects: ClassVar[Mapping[str, int]] = {"clip": +1, "peak": +1, "scale": -1}
    alphabet: ClassVar = range(-1, 2, 2)
    centre: ClassVar = Fraction(0)
    entropy: ClassVar = 1.0
    bits: ClassVar = 1.0

    def __post_init__(self) -> None:
        check_fields(self)
        fill_peak(self)
        above("peak", self.peak, scale=self.scale)

    def chance(self, x: Vector) -> Vector:
        """The probability that a client's sign is +1, (A + x)/2A at each coordinate x of its update, |x| ≤ r."""
        return (self.scale + x) * (0.5 / self.scale)

    def encode(self, x: ArrayLike, rng: Generator) -> Symbols:
        """A client's message for x: a random sign, ±1 as int8, for each coordinate."""
        return _signs(self.chance, x, self.peak, rng)

    def decode(self, total: ArrayLike, n: int) -> Vector:
        """The server's unbiased mean of n clients' updates, from the sum Z of their signs over n: A·Z."""
        return np.asarray(self.scale * np.asarray(total, dtype=float) / n)

    def between(self, x: float, y: float) -> Tradeoff:
        """The tradeoff curve between messages for x and for y, one coordinate: what witnesses and audits ask."""
        finite_inputs(x, y)
        return votes_between(1, self.chance(np.clip([float(x), float(y)], -self.peak, self.peak)))

    def tradeoff(self, adjacency: Adjacency = "replace") -> Tradeoff:
        """The worst pair of one coordinate, r against −r: the curve that certifies a message's ε.

        >>> round(StochasticSign(clip=0.1, scale=0.25).tradeoff().delta(np.log(2)), 12)
        0.1
        """
        return self.between(self.peak, -self.peak)

    def vector(self, dimension: int, adjacency: Adjacency = "replace") -> vectors.Votes:
        """The bound that certifies ε for whole ℓ2-clipped vectors of signs, whatever their dimension."""
        return vectors.Votes(clip=_norm_of_votes(self, self.scale, dimension), peak=self.peak, scale=self.scale)


@dataclass(frozen=True, kw_only=True)
class NoisySign:
    """The sign of x plus Gaussian noise of standard deviation s: +1 with probability Φ(x/s). [F] Algorithm 3.

    The paper's Algorithm 3 adds variance 4c²σ² and its equation (25) uses σ; here the deviation is the setting.
    """

    clip: Annotated[float, positive, "c, the ℓ2 norm of an input"]
    noise: Annotated[float, positive, "s, the noise's standard deviation, in the data's units"]
    peak: Peak = None  # type: ignore[assignment]  # filled in

    effects: ClassVar[Mapping[str, int]] = {"clip": +1, "peak": +1, "noise": -1}
    alphabet: ClassVar = range(-1, 2, 2)
    centre: ClassVar = Fraction(0)
    entropy: ClassVar = 1.0
    bits: ClassVar = 1.0

    def __post_init__(self) -> None:
        check_fields(self)
        fill_peak(self)
        if not ndtr(self.peak / self.noise) < 1:
            raise FedprivError(f"noise must be larger: at {self.noise} the sign of {self.peak} is no longer random")

    def chance(self, x: Vector) -> Vector:
        """The probability Φ(x/s) that a client's sign is +1 at each coordinate x, held between those at ±r."""
        return np.clip(ndtr(x / self.noise), ndtr(-self.peak / self.noise), ndtr(self.peak / self.noise))

    def encode(self, x: ArrayLike, rng: Generator) -> Symbols:
        """A client's message for x: each coordinate's sign under Gaussian noise, ±1 as int8."""
        return _signs(self.chance, x, self.peak, rng)

    def decode(self, total: ArrayLike, n: int) -> Vector:
        """Raises: these signs have no unbiased mean for the server; a majority vote needs none."""
        raise FedprivError("NoisySign has no unbiased decoder: take the majority vote")

    def between(self, x: float, y: float) -> Tradeoff:
        """The tradeoff curve between messages for x and for y, one coordinate: what witnesses and audits ask."""
        finite_inputs(x, y)
        return votes_between(1, self.chance(np.clip([float(x), float(y)], -self.peak, self.peak)))

    def tradeoff(self, adjacency: Adjacency = "replace") -> Tradeoff:
        """The worst pair of one coordinate, r against −r: the curve that certifies a message's ε; 2r/s-GDP at most.

        >>> round(NoisySign(clip=1, noise=2).tradeoff().mu, 9)
        1.0
        """
        return self.between(self.peak, -self.peak)

    def vector(self, dimension: int, adjacency: Adjacency = "replace") -> vectors.NoisyVotes:
        """The bound that certifies ε for whole ℓ2-clipped vectors of signs, whatever their dimension."""
        clip = _norm_of_votes(self, 3 * self.noise, dimension)
        return vectors.NoisyVotes(clip=clip, peak=self.peak, noise=self.noise)


def _norm_of_votes(mechanism: Binomial | StochasticSign | NoisySign, scale: float, dimension: int) -> float:
    """The largest ℓ2 norm that vector bounds must allow an update, min(c, r√d), and room for rounded chances.

    `scale` is how little one vote says.

    Rounding p by 2⁻⁵² moves a coordinate by at most scale·2⁻⁵¹: with that much more, the votes drawn are covered.
    """
    return min(mechanism.clip, mechanism.peak * sqrt(dimension)) + scale * 2.0**-51 * sqrt(dimension)


def _signs(chance: Probabilities, x: ArrayLike, peak: float, rng: Generator) -> Symbols:
    """A client's message of signs: +1 with these chances at each coordinate of x within ±peak, else −1, as int8."""
    return 2 * sampling_exact.bernoulli(chance, rng, at=x, within=peak).view(np.int8) - 1


def votes_drawn(trials: int, chance: Probabilities, peak: float, x: ArrayLike, rng: Generator) -> Symbols:
    """A message's counts of M votes a coordinate, each + with the chance at x held to ±peak, smallest unsigned type."""
    if trials == 1:
        return sampling_exact.bernoulli(chance, rng, at=x, within=peak)
    return sampling_exact.binomial(trials, chance, rng, at=x, within=peak)


def votes_between(trials: int, chance: Vector) -> Tradeoff:
    """The curve between M votes of chance p and of p': Bin(M, p) against Bin(M, p'), for a message's coordinate.

    Losses are by formula: k·ln(p'/p) + (M − k)·ln((1−p')/(1−p)).
    """
    p, q = float(chance[0]), float(chance[1])
    if p == q:
        return Tradeoff.between([1.0], [1.0])
    k = np.arange(trials + 1)
    error = ROUNDING * (16 + trials)
    if abs((1 - p) - q) <= ROUNDING * q:
        log_p = log_binomial(trials, p, 0, trials)
        loss = (2 * k - trials) * float(np.log(q / p))
        return Tradeoff(Atoms.sorted(log_p, log_p[::-1], loss, error, balanced=True))
    loss = k * float(np.log(q / p)) + (trials - k) * float(np.log((1 - q) / (1 - p)))
    return Tradeoff(Atoms.sorted(log_binomial(trials, p, 0, trials), log_binomial(trials, q, 0, trials), loss, error))
