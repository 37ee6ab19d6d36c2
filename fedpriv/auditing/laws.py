"""What one symbol says for x and against x′: its exact log likelihood ratio, from the mechanism's own probabilities."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedpriv._base.arrays import Vector
from fedpriv.accounting.routes import share_at, votes_of
from fedpriv.bounds.coins import log_binomial
from fedpriv.errors import FedprivError
from fedpriv.mechanisms import (
    Binomial,
    BinomialNoise,
    DiscreteGaussian,
    Gaussian,
    Laplace,
    Mechanism,
    Skellam,
    Ternarize,
    Ternary,
)
from fedpriv.mechanisms.votes import Votes

SURE = 1e9  # in the place of an infinite ratio: no sum of finite ones comes near it
Symbols = NDArray[Any]
Ratio = Callable[[Symbols], Vector]


def log_ratio(mechanism: Mechanism, x: float, y: float) -> Ratio:
    """ln P(symbol | x)/P(symbol | x′) of symbols as they are unpacked, x and x′ numbers within the peak.

    >>> from fedpriv.mechanisms import StochasticSign
    >>> log_ratio(StochasticSign(clip=1, scale=2), 1.0, -1.0)(np.array([1, -1])).round(4)
    array([ 1.0986, -1.0986])
    """
    match mechanism:
        case Gaussian(noise=noise):
            return lambda seen: _unit(mechanism, seen, x, y) * ((x - y) / noise**2)
        case Laplace(noise=noise):
            return lambda seen: _of_laplace(mechanism.decode(seen, 1), x, y, noise)
        case DiscreteGaussian():
            first, last = (int(each) for each in mechanism.grid.index([x, y]))
            rate = (first - last) / mechanism.sigma**2
            return lambda seen: (np.asarray(seen, float) - (first + last) / 2) * rate
        case BinomialNoise() | Skellam():
            k, mass = mechanism.law
            first, last = (int(each) for each in mechanism.grid.index([x, y]))
            lowest, size = int(k[0]) + min(first, last), len(k) + abs(first - last)
            masses = [_placed(mass, own - min(first, last), size) for own in (first, last)]
            return _table(lowest, *masses)
        case _:
            lowest, of_x = symbol_law(mechanism, x)
            return _table(lowest, *(_log(own) for own in (of_x, symbol_law(mechanism, y)[1])))


def symbol_law(mechanism: Mechanism, x: float) -> tuple[int, Vector]:
    """The lowest symbol, and the probabilities of it and of those that follow, of a small alphabet.

    >>> from fedpriv.mechanisms import Ternary
    >>> symbol_law(Ternary(clip=1, spread=2, scale=5), 1.0)
    (-1, array([0.1, 0.6, 0.3]))
    """
    match mechanism:
        case Votes():
            trials, _ = votes_of(mechanism)
            mass = np.exp(log_binomial(trials, share_at(mechanism, x), 0, trials))
            if isinstance(mechanism, Binomial):
                return 0, mass
            return -1, np.array([mass[0], 0.0, mass[1]])
        case Ternary() | Ternarize():
            plus, minus = (float(own(np.array(x))) for own in (mechanism.plus, mechanism.minus))
            return -1, np.array([minus, 1 - plus - minus, plus])
        case _:
            raise FedprivError(f"{type(mechanism).__name__} has no finite alphabet")


def of_sums(mechanism: Mechanism, x: float, y: float, others: tuple[int, Vector]) -> Ratio:
    """The same of the sum of one symbol and of others' whose sum has that law: the lowest value, and probabilities."""
    lowest, crowd = others
    own, of_x = symbol_law(mechanism, x)
    masses = [_log(np.convolve(crowd, mass)) for mass in (of_x, symbol_law(mechanism, y)[1])]
    return _table(lowest + own, *masses)


def power(law: Vector, count: int) -> Vector:
    """The law of the sum of `count` independent symbols, what is too rare for floats left at 0."""
    found, factor = np.ones(1), law
    while count:
        if count & 1:
            found = np.convolve(found, factor)
        count >>= 1
        factor = np.convolve(factor, factor) if count else factor
    return found


def _unit(mechanism: Gaussian, seen: Symbols, x: float, y: float) -> Vector:
    return np.asarray(mechanism.decode(seen, 1) - (x + y) / 2)


def _of_laplace(seen: Vector, x: float, y: float, noise: float) -> Vector:
    return np.asarray((np.abs(seen - y) - np.abs(seen - x)) / noise)


def _placed(mass: Vector, start: int, size: int) -> Vector:
    found = np.full(size, -np.inf)
    found[start : start + len(mass)] = mass
    return found


def _log(mass: Vector) -> Vector:
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(mass))


def _table(lowest: int, of_x: Vector, of_y: Vector) -> Ratio:
    """What neither can send says nothing: only a fault can have sent it, which is nobody's secret."""
    with np.errstate(invalid="ignore"):
        ratio = of_x - of_y
    ratio = np.where(np.isneginf(of_x) & np.isneginf(of_y), 0.0, np.clip(ratio, -SURE, SURE))

    def read(seen: Symbols) -> Vector:
        place = np.asarray(seen).astype(np.int64) - lowest
        return np.asarray(np.take(ratio, place, mode="clip"))

    return read
