"""Encodes a matrix of updates, each row with its own client's randomness, at the speed of a matrix.

Every symbol is the one that `mechanism.encode` gives for that row alone. What is fast about it stands in `_votes`,
`_coins`, `_ternary`, `_counts` and `_additive`; mechanisms that none of them knows are encoded row by row.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from fedpriv._base.arrays import Vector, Words
from fedpriv.bounds.clipping import clip_factors
from fedpriv.channel._additive import Additive
from fedpriv.channel._bulk import Bulk, scratch
from fedpriv.channel._coins import Coins
from fedpriv.channel._counts import Counts
from fedpriv.channel._ternary import Signs
from fedpriv.channel._votes import Votes
from fedpriv.errors import FedprivError, natural
from fedpriv.mechanisms import (
    Binomial,
    Cldp,
    Gaussian,
    Laplace,
    Mechanism,
    NoisySign,
    ShapedBinomial,
    StochasticSign,
    Ternarize,
    Ternary,
)
from fedpriv.packed.symbols import packing_of
from fedpriv.randomness.streams import Replayed, random_words, stream, words_of_clients

__all__ = ["Fresh", "Seeded", "clip_factors", "encoded_packed", "encoded_rows"]

Clients = NDArray[np.int64]
Matrix = NDArray[np.floating[Any]]
_ALL = slice(None)


@dataclass(frozen=True, eq=False)
class Seeded:
    """Randomness of a simulation: every client's stream of that round, whoever encodes it, in whatever order."""

    seed: int
    round: int
    clients: Clients  # of each row

    def __post_init__(self) -> None:
        natural(seed=self.seed, round=self.round)
        object.__setattr__(self, "clients", np.asarray(self.clients, np.int64))
        if not (self.clients.ndim == 1 and (self.clients >= 0).all()):
            raise FedprivError(f"clients must be a list of numbers from 0 on, got {self.clients}")

    @property
    def rows(self) -> int:
        """How many clients."""
        return self.clients.size

    def one(self, row: int) -> Generator:
        """The stream of that row's client."""
        return stream(self.seed, "encode", self.round, int(self.clients[row]))

    def words(self, count: int, rows: slice = _ALL, out: Words | None = None) -> Words:
        """The first words of each row's own stream."""
        return words_of_clients(self.seed, "encode", self.round, self.clients[rows], count, out)

    def again(self, row: int, words: Words) -> Generator:
        """What gives the row's words once more, and all that follow."""
        return self.one(row)


@dataclass(frozen=True, eq=False)
class Fresh:
    """Randomness that nobody can replay, one generator for all rows: what deployed clients draw from."""

    rng: Generator
    rows: int  # how many there are

    def one(self, row: int) -> Generator:
        """The generator; it has no memory of rows."""
        return self.rng

    def words(self, count: int, rows: slice = _ALL, out: Words | None = None) -> Words:
        """New words for each row, in an array of their own: their generator would have to copy them."""
        number = len(range(self.rows)[rows])
        return random_words(number * count, self.rng).reshape(number, count)

    def again(self, row: int, words: Words) -> Generator:
        """The words that were drawn for the row, then new ones: to draw them anew would favour what needs few."""
        return cast(Generator, Replayed(words, self.rng))


Noise = Seeded | Fresh


def encoded_rows(mechanism: Mechanism, updates: Matrix, factors: Vector, noise: Noise) -> NDArray[Any]:
    """Symbols, a row for each row of updates · factors: those of `mechanism.encode(row, noise.one(i))`, bit for bit.

    >>> noise = Seeded(seed=1, round=2, clients=np.array([7, 3]))
    >>> encoded_rows(StochasticSign(clip=0.1, scale=0.25), np.zeros((2, 5), np.float32), np.ones(2), noise)
    array([[ 1, -1, -1,  1,  1],
           [ 1, -1,  1,  1,  1]], dtype=int8)
    """
    x, factors = _checked(updates, factors, noise)
    bulk = _bulk(mechanism, *x.shape)
    if bulk is None and len(x):
        return np.stack([_row(mechanism, x[row], factors[row], noise.one(row)) for row in range(len(x))])
    if bulk is None:
        return mechanism.encode(x.astype(np.float64), stream(0, "encode"))  # nothing, of the right type
    drawn = np.concatenate(list(_blocks(bulk, mechanism, x, factors, noise)))
    if not bulk.packed:
        return drawn
    votes = np.unpackbits(drawn, axis=1, count=x.shape[1])  # -1 and 1, unless the mechanism names them 0 and 1
    return votes if mechanism.alphabet == range(2) else 2 * votes.view(np.int8) - np.int8(1)


def encoded_packed(mechanism: Mechanism, updates: Matrix, factors: Vector, noise: Noise) -> NDArray[np.uint8]:
    """The symbols of `encoded_rows` as they go over the wire, a row of bytes for each.

    >>> noise = Seeded(seed=1, round=2, clients=np.array([7, 3]))
    >>> encoded_packed(StochasticSign(clip=0.1, scale=0.25), np.zeros((2, 5), np.float32), np.ones(2), noise)
    array([[152],
           [184]], dtype=uint8)
    """
    x, factors = _checked(updates, factors, noise)
    bulk = _bulk(mechanism, *x.shape)
    if bulk is not None and bulk.packed:
        parts = list(_blocks(bulk, mechanism, x, factors, noise))
        return parts[0] if len(parts) == 1 else np.concatenate(parts)
    return packing_of(mechanism).pack(encoded_rows(mechanism, x, factors, noise))


def _checked(updates: Matrix, factors: Vector, noise: Noise) -> tuple[Matrix, Vector]:
    """Updates as floats that encoders take, and factors; refused where rows do not agree."""
    x, factors = np.asarray(updates), np.asarray(factors, np.float64)
    if not (x.ndim == 2 and factors.shape == (len(x),) and noise.rows == len(x)):
        wrong = f"updates of shape {x.shape}, factors of shape {factors.shape} and noise for {noise.rows}"
        raise FedprivError(f"updates, factors and noise must be of as many rows, got {wrong}")
    return x if x.dtype in (np.float32, np.float64) else x.astype(np.float64), factors


def _bulk(mechanism: Mechanism, rows: int, dimension: int) -> Bulk | None:
    """How to encode many rows at once; None where one by one is the way."""
    match mechanism:
        case _ if not rows * dimension:
            return None
        case Cldp():
            return Votes.of(mechanism.sign)
        case StochasticSign() | Binomial(trials=1):
            return Votes.of(mechanism)
        case NoisySign():
            return Coins.of(mechanism)
        case Ternary() | Ternarize():
            return Signs.of(mechanism)
        case ShapedBinomial(trials=1):
            return None
        case Binomial() | ShapedBinomial():
            return Counts.of(mechanism, dimension)
        case Gaussian() | Laplace():
            return Additive.of(mechanism, dimension)
    return None


def _row(mechanism: Mechanism, x: Vector, factor: float, rng: Generator) -> NDArray[Any]:
    """The definition of what every row becomes."""
    return mechanism.encode(x.astype(np.float64) * factor, rng)


def _blocks(bulk: Bulk, mechanism: Mechanism, x: Matrix, factors: Vector, noise: Noise) -> Iterator[NDArray[Any]]:
    """What is drawn for as many rows at once as stay in cache."""
    dimension, count = x.shape[1], bulk.words(x.shape[1])
    step = max(1, bulk.coordinates // dimension)
    for start in range(0, len(x), step):
        rows = slice(start, start + step)
        values, own = np.ascontiguousarray(x[rows]), factors[rows]
        words = noise.words(count, rows, scratch.array("words", (len(values), count), np.uint64))
        with np.errstate(over="ignore", invalid="ignore"):  # float32 may overflow where float64 does not
            drawn, late = bulk.draw(values, own, words)
        for row in sorted(set(late.tolist())):
            symbols = _row(mechanism, values[row], own[row], noise.again(start + row, words[row]))
            drawn[row] = np.packbits(symbols > 0) if bulk.packed else symbols
        yield drawn
