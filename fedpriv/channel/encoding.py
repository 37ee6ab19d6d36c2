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
        """Refuse, for encoding in a simulation, a seed or a round that is none from 0 on, and clients below 0."""
        natural(seed=self.seed, round=self.round)
        given = np.asarray(self.clients)
        if given.ndim != 1 or (given.size and (given.dtype.kind not in "iu" or given.min() < 0)):
            raise FedprivError(f"clients must be a list of whole numbers from 0 on, got {self.clients}")
        object.__setattr__(self, "clients", given.astype(np.int64))

    @property
    def rows(self) -> int:
        """For how many clients this randomness encodes, one a row of the updates, which must be as many."""
        return self.clients.size

    def one(self, row: int) -> Generator:
        """The random stream by which one client's update, a row, is encoded in the round."""
        return stream(self.seed, "encode", self.round, int(self.clients[row]))

    def words(self, count: int, rows: slice = _ALL, out: Words | None = None) -> Words:
        """The first random words of each row's own stream, a row of `count` for each, to encode a block at once."""
        return words_of_clients(self.seed, "encode", self.round, self.clients[rows], count, out)

    def again(self, row: int, words: Words) -> Generator:
        """The stream of a row from its start, with the words that were drawn and all after: to encode it again."""
        return self.one(row)


@dataclass(frozen=True, eq=False)
class Fresh:
    """Randomness that nobody can replay, one generator for all rows: what deployed clients draw from."""

    rng: Generator
    rows: int  # how many there are

    def one(self, row: int) -> Generator:
        """The generator that encodes one row: the same for all, and it cannot be replayed."""
        return self.rng

    def words(self, count: int, rows: slice = _ALL, out: Words | None = None) -> Words:
        """New random words, a row of `count` for each row, to encode a block at once; in an array of their own.

        Their generator would have to copy them to `out`.
        """
        number = len(range(self.rows)[rows])
        return random_words(number * count, self.rng).reshape(number, count)

    def again(self, row: int, words: Words) -> Generator:
        """A generator of the words drawn for a row, then of new ones, to encode it again.

        To draw them anew would favour what needs few.
        """
        return cast(Generator, Replayed(words, self.rng))


Noise = Seeded | Fresh


def encoded_rows(mechanism: Mechanism, updates: Matrix, factors: Vector, noise: Noise) -> NDArray[Any]:
    """The symbols of a cohort, a row for each of updates · factors: bit for bit those of `mechanism.encode`.

    That is, of `mechanism.encode(row, noise.one(i))`.

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
    """The packed messages of a cohort, as they go over the wire: a row of bytes for each of updates · factors.

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
    """Updates as float32 or float64, and factors as float64; refused where these and the noise differ in rows."""
    x, factors = np.asarray(updates), np.asarray(factors, np.float64)
    if not (x.ndim == 2 and factors.shape == (len(x),) and noise.rows == len(x)):
        wrong = f"updates of shape {x.shape}, factors of shape {factors.shape} and noise for {noise.rows}"
        raise FedprivError(f"updates, factors and noise must be of as many rows, got {wrong}")
    return x if x.dtype in (np.float32, np.float64) else x.astype(np.float64), factors


def _bulk(mechanism: Mechanism, rows: int, dimension: int) -> Bulk | None:
    """The encoder of many rows at once that a mechanism has; None where its rows are encoded one by one."""
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
    """The symbols of one client's update, as the mechanism itself draws them: what every faster encoder must give."""
    return mechanism.encode(x.astype(np.float64) * factor, rng)


def _blocks(bulk: Bulk, mechanism: Mechanism, x: Matrix, factors: Vector, noise: Noise) -> Iterator[NDArray[Any]]:
    """Symbols, or packed votes, of as many rows at a time as stay in cache; rows out of words are encoded again."""
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
