"""Mechanisms that add whole-number noise on a grid: binomial, discrete Gaussian, Skellam.

The clipped value is rounded to the grid −c, −c + g, …, c with g = 2c/l, so that two inputs lie at
most l steps apart: the rounding is counted in the sensitivity. Sums of messages decode to unbiased means up to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import ceil, log, log2, sqrt
from typing import ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammaln, ive

from fedpriv import sampling_exact, vectors
from fedpriv.arrays import Symbols, Vector, finite
from fedpriv.atoms import ROUNDING, Atoms
from fedpriv.coins import log_binomial, window
from fedpriv.errors import FedprivError, finite_inputs, positive, whole
from fedpriv.tradeoff import Tradeoff
from fedpriv.trust import Adjacency

WIDE = 1e6  # variance past which Bessel functions are expanded
NARROWEST = 1e-3  # standard deviation, in grid steps
MANY = 1 << 12  # trials past which a law is cut
FAR = 1e-300  # the tail at which infinite noise is cut; what lies beyond counts as seen


@dataclass(frozen=True)
class Grid:
    """−c, −c + g, …, c in l steps."""

    clip: float
    levels: int

    @property
    def step(self) -> float:
        """g, in the data's units."""
        return 2 * self.clip / self.levels

    @property
    def centre(self) -> Fraction:
        """Where 0 lies, in steps from the lowest point."""
        return Fraction(self.levels, 2)

    def index(self, x: ArrayLike) -> NDArray[np.int64]:
        """The nearest grid point's number, 0 to l, refusing what is not finite."""
        values = np.clip(finite(x), -self.clip, self.clip)
        return np.asarray(np.rint((values + self.clip) / self.step), dtype=np.int64)

    def mean(self, total: ArrayLike, n: int, noise_mean: float = 0.0) -> Vector:
        """The mean of n inputs from the sum of their messages."""
        return np.asarray((np.asarray(total, dtype=float) / n - noise_mean) * self.step - self.clip)


@dataclass(frozen=True, kw_only=True)
class BinomialNoise:
    """A grid value 0…l plus Bin(M, p). [F] Algorithm 1; its finite reach always leaves a δ."""

    clip: float  # c, the largest |coordinate|
    levels: int  # l
    trials: int  # M
    bias: float = 0.5  # p

    effects: ClassVar[Mapping[str, int]] = {"levels": +1, "trials": -1}

    def __post_init__(self) -> None:
        positive(clip=self.clip, bias=self.bias)
        whole(levels=self.levels, trials=self.trials)
        if not self.bias < 1:
            raise FedprivError(f"bias must be below 1, got {self.bias}")

    @property
    def peak(self) -> float:
        """The largest coordinate."""
        return self.clip

    @property
    def grid(self) -> Grid:
        """Where values are rounded to."""
        return Grid(self.clip, self.levels)

    @property
    def alphabet(self) -> range:
        """What one coordinate may send."""
        return range(self.levels + self.trials + 1)

    @property
    def centre(self) -> Fraction:
        """l/2 + Mp, the bias as it is written: 0.3 is three tenths, so that ties are ties."""
        return self.grid.centre + self.trials * Fraction(str(float(self.bias)))

    @property
    def bits(self) -> float:
        """Bits one coordinate takes on the wire."""
        return float(ceil(log2(len(self.alphabet))))

    @property
    def law(self) -> tuple[NDArray[np.int64], Vector]:
        """The noise's values and their log masses; of very many trials, only those that are not too rare to matter."""
        first, last = window(self.trials, self.bias, FAR) if self.trials > MANY else (0, self.trials)
        _not_too_wide(last - first)
        return np.arange(first, last + 1), log_binomial(self.trials, self.bias, first, last)

    @cached_property
    def entropy(self) -> float:
        """Bits of information in one coordinate's noise."""
        return _entropy(self.law[1])

    def encode(self, x: ArrayLike, rng: Generator) -> Symbols:
        """Grid value plus noise, in the smallest unsigned type."""
        index = self.grid.index(x)
        noise = sampling_exact.binomial_fixed(self.trials, self.bias, index.shape, rng)
        return (index + noise).astype(np.min_scalar_type(self.levels + self.trials))

    def decode(self, total: ArrayLike, n: int) -> Vector:
        """The mean of n inputs from the sum of their messages."""
        return self.grid.mean(total, n, self.trials * self.bias)

    def between(self, x: float, y: float) -> Tradeoff:
        """The curve that separates two inputs of one coordinate."""
        finite_inputs(x, y)
        k, mass = self.law
        return _shifted(k, mass, self.grid.index([x, y]), ROUNDING * (16 + k.size), self.bias == 0.5)

    def tradeoff(self, adjacency: Adjacency = "replace") -> Tradeoff:
        """The worst of both ways round of one coordinate: noise against noise moved by l.

        >>> round(BinomialNoise(clip=1, levels=8, trials=500).tradeoff().delta(1.0), 13)
        0.041699274767
        """
        curve = self.between(-self.clip, self.clip)
        return curve if self.bias == 0.5 else curve.hull(curve.inverse)

    def vector(self, dimension: int, adjacency: Adjacency = "replace") -> None:
        """No bound for vectors but that of every coordinate at its largest."""
        return

    def aggregated(self, clients: int) -> BinomialNoise:
        """The sum of `clients` messages seen as one: independent binomials add their trials."""
        return BinomialNoise(clip=self.clip, levels=self.levels, trials=clients * self.trials, bias=self.bias)


@dataclass(frozen=True, kw_only=True)
class DiscreteGaussian:
    """A grid value plus discrete Gaussian noise, P(v) ∝ e^{−v²/2σ²}. Canonne–Kamath–Steinke 2020; [F] Remark 3."""

    clip: float  # c, the largest |coordinate|, and the ℓ2 norm of a vector
    levels: int  # l
    noise: float  # standard deviation parameter in the data's units: σ = noise/g grid steps

    effects: ClassVar[Mapping[str, int]] = {"clip": +1, "noise": -1}
    alphabet: ClassVar = None

    def __post_init__(self) -> None:
        positive(clip=self.clip, noise=self.noise)
        whole(levels=self.levels)
        _not_too_narrow(self.noise / self.grid.step)

    @property
    def peak(self) -> float:
        """The largest coordinate."""
        return self.clip

    @property
    def grid(self) -> Grid:
        """Where values are rounded to."""
        return Grid(self.clip, self.levels)

    @property
    def centre(self) -> Fraction:
        """The middle of the grid."""
        return self.grid.centre

    @property
    def sigma(self) -> float:
        """σ in grid steps."""
        return self.noise / self.grid.step

    @property
    def law(self) -> tuple[NDArray[np.int64], Vector]:
        """The noise's values and their log masses, cut far out."""
        reach = ceil(self.sigma * 38) + 2
        _not_too_wide(reach)
        k = np.arange(-reach, reach + 1)
        height = -(k.astype(float) ** 2) / (2 * self.sigma**2)
        return k, height - float(np.logaddexp.reduce(height))

    @cached_property
    def entropy(self) -> float:
        """Bits of information in one coordinate's noise."""
        return _entropy(self.law[1])

    @property
    def bits(self) -> float:
        """Bits one coordinate takes on the wire, all but 2⁻⁴⁰ of the time."""
        return float(ceil(log2(self.levels + 15 * self.sigma + 1)))

    def encode(self, x: ArrayLike, rng: Generator) -> Symbols:
        """Grid value plus noise."""
        index = self.grid.index(x)
        return index + sampling_exact.discrete_gaussian(self.sigma, index.shape, rng)

    def decode(self, total: ArrayLike, n: int) -> Vector:
        """The mean of n inputs from the sum of their messages."""
        return self.grid.mean(total, n)

    def between(self, x: float, y: float) -> Tradeoff:
        """The curve that separates two inputs of one coordinate: the loss is a straight line in k."""
        finite_inputs(x, y)
        return _shifted(*self.law, self.grid.index([x, y]), 64 * ROUNDING, balanced=True, rate=1 / self.sigma**2)

    def tradeoff(self, adjacency: Adjacency = "replace") -> Tradeoff:
        """The worst pair of one coordinate: noise against noise moved by l.

        >>> f = DiscreteGaussian(clip=0.5, levels=1, noise=4).tradeoff()
        >>> round(f.epsilon(1e-5), 3)
        0.927
        """
        return self.between(-self.clip, self.clip)

    def vector(self, dimension: int, adjacency: Adjacency = "replace") -> vectors.AdditiveNoise:
        """‖x − x′‖₂ ≤ 2c moves the rounded vector by at most l + √d steps; where 0 is a grid point, by at most 2l."""
        steps = self.levels + sqrt(dimension)
        steps = min(steps, 2.0 * self.levels) if self.levels % 2 == 0 else steps
        steps *= 1 + 2.0**-49 * self.levels  # what rounding may do to a value half-way between two steps
        return vectors.AdditiveNoise(shift=steps / self.sigma, continuous=False)


@dataclass(frozen=True, kw_only=True)
class Skellam:
    """A grid value plus Skellam noise, the difference of two Poisson numbers; sums of messages are Skellam again."""

    clip: float  # c, the largest |coordinate|
    levels: int  # l
    noise: float  # standard deviation in the data's units

    effects: ClassVar[Mapping[str, int]] = {"clip": +1, "noise": -1}
    alphabet: ClassVar = None

    def __post_init__(self) -> None:
        positive(clip=self.clip, noise=self.noise)
        whole(levels=self.levels)
        _not_too_narrow(self.noise / self.grid.step)

    @property
    def peak(self) -> float:
        """The largest coordinate."""
        return self.clip

    @property
    def grid(self) -> Grid:
        """Where values are rounded to."""
        return Grid(self.clip, self.levels)

    @property
    def centre(self) -> Fraction:
        """The middle of the grid."""
        return self.grid.centre

    @property
    def variance(self) -> float:
        """In grid steps, squared."""
        return (self.noise / self.grid.step) ** 2

    @property
    def law(self) -> tuple[NDArray[np.int64], Vector]:
        """The noise's values and their log masses, e^{−v}·I_|k|(v), cut far out."""
        reach = ceil(40 * sqrt(self.variance) + 300)
        _not_too_wide(reach)
        k = np.arange(0, reach + 1)
        mass = _log_skellam(k, self.variance)
        kept = mass > log(FAR)
        k, mass = k[kept], mass[kept]
        return np.concatenate((-k[:0:-1], k)), np.concatenate((mass[:0:-1], mass))

    @cached_property
    def entropy(self) -> float:
        """Bits of information in one coordinate's noise."""
        return _entropy(self.law[1])

    @property
    def bits(self) -> float:
        """Bits one coordinate takes on the wire, all but 2⁻⁴⁰ of the time."""
        return float(ceil(log2(self.levels + 15 * sqrt(self.variance) + 40)))

    def encode(self, x: ArrayLike, rng: Generator) -> Symbols:
        """Grid value plus noise."""
        index = self.grid.index(x)
        return index + sampling_exact.skellam(self.variance, index.shape, rng)

    def decode(self, total: ArrayLike, n: int) -> Vector:
        """The mean of n inputs from the sum of their messages."""
        return self.grid.mean(total, n)

    def between(self, x: float, y: float) -> Tradeoff:
        """The curve that separates two inputs of one coordinate."""
        finite_inputs(x, y)
        return _shifted(*self.law, self.grid.index([x, y]), 2.0**-40)

    def tradeoff(self, adjacency: Adjacency = "replace") -> Tradeoff:
        """The worst pair of one coordinate: noise against noise moved by l.

        >>> round(Skellam(clip=0.5, levels=1, noise=4).tradeoff().delta(0.5), 5)
        0.00235
        """
        return self.between(-self.clip, self.clip)

    def vector(self, dimension: int, adjacency: Adjacency = "replace") -> None:
        """No bound for vectors but that of every coordinate at its largest."""
        return

    def aggregated(self, clients: int) -> Skellam:
        """The sum of `clients` messages seen as one: variances add."""
        return Skellam(clip=self.clip, levels=self.levels, noise=self.noise * sqrt(clients) * (1 - ROUNDING))


def _shifted(
    k: NDArray[np.int64],
    log_mass: Vector,
    ends: NDArray[np.int64],
    error: float,
    balanced: bool = False,
    rate: float | None = None,
) -> Tradeoff:
    """Noise moved to one end against noise moved to the other; what only one of them reaches has an infinite loss.

    `rate`: the loss is rate·away·(k − away/2), away the distance, exactly, for Gaussian heights.
    """
    away = int(ends[1] - ends[0])
    size = k.size
    log_p, log_q = np.full(size + abs(away), -np.inf), np.full(size + abs(away), -np.inf)
    log_p[max(-away, 0) : max(-away, 0) + size] = log_mass
    log_q[max(away, 0) : max(away, 0) + size] = log_mass
    with np.errstate(invalid="ignore"):
        loss = log_q - log_p
    if rate is not None:
        place = np.arange(loss.size) + k[0] - max(-away, 0)
        loss = np.where(np.isfinite(loss), rate * away * (place - away / 2), loss)
    return Tradeoff(Atoms.sorted(log_p, log_q, loss, error, balanced=balanced))


def _log_skellam(k: NDArray[np.int64], variance: float) -> Vector:
    """ln e^{−v} I_k(v): by scipy where it does not underflow, by the leading term of its series where it does.

    I_k(v) = (v/2)^k/k!·Σ (v²/4)^j/(j!·(k+1)…(k+j)).
    """
    if variance > WIDE:
        return _log_skellam_wide(k.astype(float), variance)
    mass = ive(k, variance)
    with np.errstate(divide="ignore"):
        direct = np.log(mass)
    series = k * log(variance / 2) - gammaln(k + 1) - variance + variance**2 / (4 * (k + 1))
    return np.where(mass > 1e-290, direct, np.minimum(series, -660.0))


def _log_skellam_wide(k: Vector, variance: float) -> Vector:
    """ln e^{−v} I_k(v) by Debye's uniform expansion (DLMF 10.41.3), whose second term is below 1/v² of the whole."""
    s = np.hypot(k, variance)
    exponent = k * k / (s + variance) - k * np.arcsinh(k / variance)
    return np.asarray(exponent - np.log(2 * np.pi * s) / 2 + np.log1p((3 / s - 5 * k * k / s**3) / 24))


def _entropy(log_mass: Vector) -> float:
    return float(-(np.exp(log_mass) * log_mass).sum() / log(2))


def _not_too_wide(reach: int) -> None:
    if reach > 1 << 23:
        raise FedprivError(f"noise reaching {reach:.3g} grid steps is too wide: fewer levels, or less noise")


def _not_too_narrow(deviation: float) -> None:
    if not deviation >= NARROWEST:
        raise FedprivError(f"noise of {deviation:.3g} grid steps hides nothing: at least {NARROWEST} or fewer levels")
