"""What one symbol says for x and against x′: its exact log likelihood ratio, from the mechanism's own probabilities."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedpriv._base.arrays import Vector
from fedpriv.bounds.coins import log_binomial
from fedpriv.errors import FedprivError
from fedpriv.mechanisms import (
    Binomial,
    BinomialNoise,
    Costed,
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    Laplace,
    Mechanism,
    Skellam,
    Ternarize,
    Ternary,
)
from fedpriv.mechanisms.abilities import FiniteLaw, share_at, votes_of
from fedpriv.mechanisms.votes import Votes

SURE = 1e9  # in the place of an infinite ratio: no sum of finite ones comes near it
Symbols = NDArray[Any]
Ratio = Callable[[Symbols], Vector]


def log_ratio(mechanism: Mechanism, x: float, y: float) -> Ratio:
    """What an audit scores one coordinate's symbols by: a function to their ln P(symbol | x)/P(symbol | x′).

    Of symbols as they are unpacked, x and x′ (`y`) numbers within the peak.

    >>> from fedpriv.mechanisms import StochasticSign
    >>> log_ratio(StochasticSign(clip=1, scale=2), 1.0, -1.0)(np.array([1, -1])).round(4)
    array([ 1.0986, -1.0986])
    """
    match mechanism:
        case Gaussian(noise=noise):
            return lambda seen: (mechanism.decode(seen, 1) - (x + y) / 2) * ((x - y) / noise**2)
        case Laplace(noise=noise):
            read = mechanism.decode
            return lambda seen: np.asarray((np.abs(read(seen, 1) - y) - np.abs(read(seen, 1) - x)) / noise)
        case DiscreteGaussian():
            first, last = (int(each) for each in mechanism.grid.index([x, y]))
            rate = (first - last) / mechanism.sigma**2
            return lambda seen: (np.asarray(seen, float) - (first + last) / 2) * rate
        case DiscreteLaplace():
            first, last = (int(each) for each in mechanism.grid.index([x, y]))
            return lambda seen: (np.abs(np.asarray(seen, float) - last) - np.abs(seen - first)) / mechanism.scale
        case BinomialNoise() | Skellam():
            k, mass = mechanism.law
            first, last = (int(each) for each in mechanism.grid.index([x, y]))
            of_x, of_y = np.full((2, len(k) + abs(first - last)), -np.inf)
            of_x[max(first - last, 0) :][: len(k)] = mass
            of_y[max(last - first, 0) :][: len(k)] = mass
            return _table(int(k[0]) + min(first, last), of_x, of_y)
        case _:
            lowest, of_x = symbol_law(mechanism, x)
            return _table(lowest, *(_log(own) for own in (of_x, symbol_law(mechanism, y)[1])))


def symbol_law(mechanism: Costed, x: float) -> tuple[int, Vector]:
    """The law of a mechanism's symbol at input x, of a small alphabet: the lowest symbol, and probabilities from it on.

    >>> from fedpriv.mechanisms import Ternary
    >>> symbol_law(Ternary(clip=1, spread=2, scale=5), 1.0)
    (-1, array([0.1, 0.6, 0.3]))
    """
    match mechanism:
        case FiniteLaw():
            alphabet = mechanism.alphabet
            law = np.zeros(alphabet[-1] - alphabet[0] + 1)
            law[:: alphabet.step] = mechanism.symbol_law(x)
            return alphabet[0], law
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


def of_sums(
    mechanism: Mechanism,
    x: float,
    y: float,
    others: tuple[int, Vector],  # the law of the others' sum: its lowest value, the probabilities of it and the next
) -> Ratio:
    """What an audit scores sums by, one client's symbol among others': a function to ln P(sum | x)/P(sum | x′)."""
    lowest, crowd = others
    own, of_x = symbol_law(mechanism, x)
    masses = [_log(np.convolve(crowd, mass)) for mass in (of_x, symbol_law(mechanism, y)[1])]
    return _table(lowest + own, *masses)


def law_of_sum(law: Vector, count: int) -> Vector:
    """Probabilities of the sum of `count` independent symbols of a law: the crowd around an audit's canary.

    What is too rare for floats is left at 0.
    """
    found, factor = np.ones(1), law
    while count:
        if count & 1:
            found = np.convolve(found, factor)
        count >>= 1
        factor = np.convolve(factor, factor) if count else factor
    return found


def _log(mass: Vector) -> Vector:
    """Logarithms of the probabilities in a law of symbols, −∞ of what never comes."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(mass))


def _table(lowest: int, of_x: Vector, of_y: Vector) -> Ratio:
    """The score of symbols from two laws' log masses, looked up by symbol from `lowest` on; 0 of what neither can send.

    Only a fault can have sent that, which is nobody's secret.
    """
    with np.errstate(invalid="ignore"):
        ratio = of_x - of_y
    ratio = np.where(np.isneginf(of_x) & np.isneginf(of_y), 0.0, np.clip(ratio, -SURE, SURE))

    def read(seen: Symbols) -> Vector:
        """The log ratio of each symbol that an audit has seen."""
        place = np.asarray(seen).astype(np.int64) - lowest
        return np.asarray(np.take(ratio, place, mode="clip"))

    return read
