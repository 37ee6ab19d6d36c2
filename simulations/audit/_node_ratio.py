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
    DiscreteLaplace,
    Gaussian,
    Laplace,
    Mechanism,
    NoisySign,
    Skellam,
    Ternarize,
    Ternary,
)
from fedpriv.mechanisms.abilities import FiniteLaw
from fedpriv.mechanisms.votes import Votes

Rows = NDArray[Any]
Score = Callable[[Rows], float]


def of_messages(mechanism: Mechanism, x: Rows, y: Rows) -> Score:
    """How trials score messages: symbols, a row a client, to ln P(symbols | x)/P(symbols | y), x and y in the peak.

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
        case DiscreteLaplace():
            i, j = mechanism.grid.index(x), mechanism.grid.index(y)
            return lambda seen: _total((np.abs(np.asarray(seen, float) - j) - np.abs(seen - i)) / mechanism.scale)
        case BinomialNoise() | Skellam():  # one law, moved by the grid point that is sent
            k, mass = mechanism.law
            table = np.concatenate(([-SURE], mass, [-SURE]))  # past either end is what cannot be sent
            i, j = (mechanism.grid.index(own) + int(k[0]) - 1 for own in (x, y))  # what stands at 0 of the table
            return lambda seen: _total(
                np.subtract(*(table.take(seen.astype(np.int64) - own, mode="clip") for own in (i, j)))
            )
        case FiniteLaw():
            of_x, of_y = (_log_chances(mechanism, own) for own in (x, y))
            return lambda seen: _total(of_x(seen), of_y(seen))
        case Votes():  # a message is −1 or 1; of Binomial it is how many of its trials are 1
            trials, lowest, step = (mechanism.trials, 0, 1) if isinstance(mechanism, Binomial) else (1, -1, 2)
            plus, minus = _logs(mechanism.chance(x.copy()), mechanism.chance(y.copy()))
            return lambda seen: _total(
                (ones := (np.asarray(seen, float) - lowest) / step) * plus + (trials - ones) * minus
            )
        case Ternary() | Ternarize():
            up, down = (_logs(side(x), side(y))[0] for side in (mechanism.plus, mechanism.minus))
            none = _logs(1 - mechanism.plus(x) - mechanism.minus(x), 1 - mechanism.plus(y) - mechanism.minus(y))[0]
            return lambda seen: _total(np.where(seen > 0, up, np.where(seen < 0, down, none)))
        case _:
            raise FedprivError(f"no likelihood of {type(mechanism).__name__} is known")


def of_sums(mechanism: Mechanism, x: Rows, y: Rows, summed: int) -> Score:
    """How trials score a sum of `summed` messages, all but these inputs' being 0: how far it is from y to x.

    It orders sums as the likelihood ratio does where noise is normal, and of votes where there are many. Whatever it
    is, what a guesser gets right by it is counted.
    """
    if isinstance(mechanism, NoisySign):  # which has no decoder: by the mean of its signs
        x, y = (2 * mechanism.chance(own) - 1 for own in (x, y))
    way, middle = (x - y).sum(axis=0), (x + y).sum(axis=0) / 2

    def total(seen: Rows) -> Rows:
        """The sum of updates that a sum of symbols decodes to; of NoisySign, which has no decoder, the sum itself."""
        return seen if isinstance(mechanism, NoisySign) else mechanism.decode(seen, summed) * summed

    return lambda seen: _total((total(seen) - middle) * way)


def of_answers(mechanism: Mechanism, x: Rows, y: Rows) -> Score:
    """How trials score a node's answers: messages, a row a client; a single row as the sum of these clients'."""
    alone, added, many = of_messages(mechanism, x, y), of_sums(mechanism, x, y, len(x)), len(x)
    return lambda seen: alone(seen) if len(seen) == many else added(seen.sum(axis=0))


def of_releases(total: Vector, base: Vector, way: Vector, spread: float, sampling: float, steps: int) -> float:
    """ln of the likelihood ratio of the noisy sum of so many Poisson batches, with a record and without it.

    `base` is the sum expected without it, `way` its gradient, `spread` the variance of everything else along that.
    Exact where all records are drawn; else the other records' sampling counts as normal noise.

    >>> of_releases(np.array([1.0]), np.zeros(1), np.ones(1), 1.0, 1.0, 1)
    0.5
    """
    length = float(way @ way)
    if not length:
        return 0.0
    j, along = np.arange(steps + 1), float((total - base) @ way)
    return float(logsumexp(log_drawn(sampling, steps) + (j * along - j * j * length / 2) / spread))


def log_drawn(sampling: float, steps: int) -> Vector:
    """ln Bin(K, q)(j): the chance that a record is in j of K Poisson batches, for j from 0 to K.

    >>> np.exp(log_drawn(0.5, 2)).round(9)
    array([0.25, 0.5 , 0.25])
    """
    j = np.arange(steps + 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        chances = gammaln(steps + 1) - gammaln(j + 1) - gammaln(steps - j + 1)
        return np.asarray(chances + j * np.log(sampling) + np.where(j == steps, 0.0, (steps - j) * np.log1p(-sampling)))


def _log_chances(mechanism: Any, x: Rows) -> Callable[[Rows], Rows]:
    """ln P(symbol | x) of what is sent for each of these inputs, −∞ of what never is: of node audits' likelihoods."""
    inputs, place = np.unique(x, return_inverse=True)
    with np.errstate(divide="ignore"):
        logs = np.log([mechanism.symbol_law(float(own)) for own in inputs])
    lowest, step = mechanism.alphabet[0], mechanism.alphabet.step
    return lambda seen: logs[place.reshape(np.shape(x)), (np.asarray(seen, np.int64) - lowest) // step]


def _total(terms: Rows, less: Rows | float = 0.0) -> float:
    """The log likelihood ratio of a whole answer: its symbols' summed, none of them beyond what counts as certain.

    Of what neither input sends it says nothing.
    """
    with np.errstate(invalid="ignore"):
        return float(np.clip(np.nan_to_num(terms - less, posinf=SURE, neginf=-SURE), -SURE, SURE).sum())


def _logs(of_x: Rows, of_y: Rows) -> tuple[Rows, Rows]:
    """ln(p/q) and ln((1 − p)/(1 − q)): what a symbol says by coming, or not, if its chance is p of x and q of y."""
    p, q = (np.clip(each, 1e-300, 1.0) for each in (of_x, of_y))
    return np.log(p / q), np.log(np.maximum(1 - p, 1e-300) / np.maximum(1 - q, 1e-300))
