"""What a node's messages say for the one of two neighbours: log likelihood ratios where inputs differ by coordinate."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, logsumexp

from fedpriv._base.arrays import Vector
from fedpriv.auditing.laws import SURE
from fedpriv.errors import FedprivError
from fedpriv.mechanisms import (
    Binomial,
    BinomialNoise,
    DiscreteGaussian,
    Gaussian,
    Laplace,
    Mechanism,
    NoisySign,
    Skellam,
    Ternarize,
    Ternary,
)
from fedpriv.mechanisms.votes import Votes

Rows = NDArray[Any]
Score = Callable[[Rows], float]


def of_messages(mechanism: Mechanism, x: Rows, y: Rows) -> Score:
    """ln P(symbols | x)/P(symbols | y), a row a client, x and y within the peak.

    >>> from fedpriv.mechanisms import StochasticSign
    >>> score = of_messages(StochasticSign(clip=1, scale=2), np.array([[1.0, 0.5]]), np.array([[-1.0, 0.5]]))
    >>> round(score(np.array([[1, -1]])), 4)
    1.0986
    """
    match mechanism:
        case Gaussian(noise=noise):
            return lambda seen: _total((mechanism.decode(seen, 1) - (x + y) / 2) * ((x - y) / noise**2))
        case Laplace(noise=noise):
            return lambda seen: _total(
                (np.abs(mechanism.decode(seen, 1) - y) - np.abs(mechanism.decode(seen, 1) - x)) / noise
            )
        case DiscreteGaussian():
            i, j = mechanism.grid.index(x), mechanism.grid.index(y)
            return lambda seen: _total((np.asarray(seen, float) - (i + j) / 2) * ((i - j) / mechanism.sigma**2))
        case BinomialNoise() | Skellam():
            return _on_a_grid(mechanism, mechanism.grid.index(x), mechanism.grid.index(y))
        case Votes():
            votes = isinstance(mechanism, Binomial)
            trials = mechanism.trials if isinstance(mechanism, Binomial) else 1
            plus, minus = _logs(mechanism.chance(x.copy()), mechanism.chance(y.copy()))
            return lambda seen: _total(_chosen(_votes(seen, votes=votes), trials, plus, minus))
        case Ternary() | Ternarize():
            up, down = (_logs(side(x), side(y))[0] for side in (mechanism.plus, mechanism.minus))
            none = _logs(1 - mechanism.plus(x) - mechanism.minus(x), 1 - mechanism.plus(y) - mechanism.minus(y))[0]
            return lambda seen: _total(np.where(seen > 0, up, np.where(seen < 0, down, none)))
        case _:
            raise FedprivError(f"no likelihood of {type(mechanism).__name__} is known")


def of_sums(mechanism: Mechanism, x: Rows, y: Rows, summed: int) -> Score:
    """The same of the sum of these messages and of others whose inputs are 0: the direction in which x and y differ.

    Exact for normal noise; of votes what their sum comes to where there are many. Whatever it is, what a guesser gets
    right is counted.
    """
    if isinstance(mechanism, NoisySign):  # which has no decoder: by the mean of its signs
        x, y = (2 * mechanism.chance(own) - 1 for own in (x, y))
    way, middle = (x - y).sum(axis=0), (x + y).sum(axis=0) / 2

    def total(seen: Rows) -> Rows:
        return seen if isinstance(mechanism, NoisySign) else mechanism.decode(seen, summed) * summed

    return lambda seen: _total((total(seen) - middle) * way)


def of_releases(total: Vector, base: Vector, way: Vector, spread: float, sampling: float, steps: int) -> float:
    """Of a noisy sum of Poisson batches: `base` expected without the record, its gradient, everything else's variance.

    Exact where all records are drawn; else the other records' sampling counts as normal noise.

    >>> of_releases(np.array([1.0]), np.zeros(1), np.ones(1), 1.0, 1.0, 1)
    0.5
    """
    length = float(way @ way)
    if not length:
        return 0.0
    j, along = np.arange(steps + 1), float((total - base) @ way)
    with np.errstate(divide="ignore", invalid="ignore"):
        chances = gammaln(steps + 1) - gammaln(j + 1) - gammaln(steps - j + 1)
        chances = chances + j * np.log(sampling) + np.where(j == steps, 0.0, (steps - j) * np.log1p(-sampling))
    return float(logsumexp(chances + (j * along - j * j * length / 2) / spread))


def _total(terms: Rows) -> float:
    return float(np.clip(terms, -SURE, SURE).sum())


def _logs(of_x: Rows, of_y: Rows) -> tuple[Rows, Rows]:
    """ln(p/q) and ln((1 − p)/(1 − q)) of chances, those past 0 and 1 by rounding held inside."""
    p, q = (np.clip(each, 1e-300, 1.0) for each in (of_x, of_y))
    return np.log(p / q), np.log(np.maximum(1 - p, 1e-300) / np.maximum(1 - q, 1e-300))


def _votes(seen: Rows, *, votes: bool) -> Rows:
    return np.asarray(seen, float) if votes else (np.asarray(seen, float) + 1) / 2


def _chosen(count: Rows, trials: int, plus: Rows, minus: Rows) -> Rows:
    return np.asarray(count * plus + (trials - count) * minus)


def _on_a_grid(own: Any, i: Rows, j: Rows) -> Score:
    """Of noise that is one law, moved by the grid point that is sent."""
    k, mass = own.law
    lowest = int(k[0])

    def of(at: Rows) -> Rows:
        inside = (at >= 0) & (at < len(mass))
        return np.where(inside, mass[np.clip(at, 0, len(mass) - 1)], -SURE)

    return lambda seen: _total(of(seen.astype(np.int64) - i - lowest) - of(seen.astype(np.int64) - j - lowest))
