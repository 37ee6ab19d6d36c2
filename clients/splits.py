"""How records are divided over clients, and which of its own a client uses in a step.

Every answer depends on the seed and the client's own number alone: not on who else is asked, in which order, or where.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol, get_args

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from clients.counter_hash import hashed
from fedpriv.errors import FedprivError, at_most, one_of, whole
from fedpriv.random_streams import random_words, stream

Split = Literal["iid", "by-label", "in-order", "pool"]
Whole = NDArray[np.int64]

_BLOCK = 1 << 16  # words hashed at a time: half a megabyte stays in the cache
_LOW_HALF = np.uint64(2**32 - 1)
_HALF = np.uint64(32)


class Division(Protocol):
    """Whose the records are."""

    @property
    def disjoint(self) -> bool:
        """No record is at two clients, so that hiding a client hides its records."""

    @property
    def clients(self) -> int:
        """How many there are."""

    @property
    def records_each(self) -> int:
        """How many records each has."""

    def of(self, clients: Whole) -> Whole:
        """The record numbers of these clients, (clients, records_each)."""


def division(split: str, labels: Whole, clients: int, records_each: int, seed: int) -> Division:
    """Divide the records that bear these labels.

    `iid`: dealt out from a shuffled deck. `by-label`: sorted by label, cut into shards, two shards to a client, so that
    most clients see two labels. `pool`: every client draws its own from all of them, with replacement, whatever their
    number; a record may then be at many clients, and what protects a client protects no record. `in-order`: each takes
    the records that stand next, for data that are stored client by client (and read without a copy); past the last one
    they begin again.

    >>> division("iid", np.array([0, 1, 0, 1, 0, 1]), clients=3, records_each=2, seed=1).of(np.array([2, 0])).tolist()
    [[3, 4], [2, 5]]
    """
    one_of(get_args(Split), split=split)
    whole(clients=clients, records_each=records_each)
    whole(at_least=0, seed=seed)
    if not len(labels):
        raise FedprivError("there are no records to divide")
    if split == "in-order":
        return InOrder(clients, records_each, len(labels))
    if split == "pool":
        at_most("2^32", 2**32, records=len(labels))
        return Drawn(clients, records_each, len(labels), _key(stream(seed, "split pool")))
    if not clients * records_each <= len(labels):
        raise FedprivError(
            f"{clients} clients of {records_each} record(s) each need {clients * records_each:,} records, "
            f'but there are {len(labels):,}: ask for fewer, or split = "pool"'
        )
    deck = _shuffled(len(labels), stream(seed, "split deck"))[: clients * records_each]
    dealt = deck.reshape(clients, records_each)
    return Dealt(_by_label(dealt, labels, seed) if split == "by-label" else dealt)


@dataclass(frozen=True, eq=False)
class Dealt:
    """Every record at one client at most, from a table of all of them."""

    table: Whole  # (clients, records_each)
    disjoint: ClassVar[bool] = True

    @property
    def clients(self) -> int:
        """How many there are."""
        return len(self.table)

    @property
    def records_each(self) -> int:
        """How many records each has."""
        return int(self.table.shape[1])

    def of(self, clients: Whole) -> Whole:
        """The record numbers of these clients, (clients, records_each)."""
        return self.table[_asked(clients, self.clients)]


@dataclass(frozen=True)
class InOrder:
    """Client c's records are c·r, c·r + 1, … of the pool, beginning again at its end."""

    clients: int
    records_each: int
    records: int

    @property
    def disjoint(self) -> bool:
        """Whether there are enough records for all."""
        return self.clients * self.records_each <= self.records

    def of(self, clients: Whole) -> Whole:
        """The record numbers of these clients, (clients, records_each)."""
        asked = _asked(clients, self.clients)
        return (asked[:, None] * self.records_each + np.arange(self.records_each)) % self.records


@dataclass(frozen=True)
class Drawn:
    """Client c's record r is number ⌊hash(key, c, r) · records / 2⁶⁴⌋: no table, whatever the number of clients.

    No record's probability is off by more than 2⁻⁶⁴, from rounding down.
    """

    clients: int
    records_each: int
    records: int
    key: int
    disjoint: ClassVar[bool] = False

    def of(self, clients: Whole) -> Whole:
        """The record numbers of these clients, (clients, records_each)."""
        asked = _asked(clients, self.clients)
        out = np.empty((len(asked), self.records_each), np.int64)
        for rows in _blocks(len(asked), self.records_each):
            out[rows] = _below(self.records, hashed(self.key, asked[rows], self.records_each))
        return out


def drawn(records_each: int, batch: int, seed: int, round: int, clients: Whole, step: int = 0) -> Whole:
    """Which of its own records each client uses in a step: (clients, batch) places from 0 to records_each − 1.

    A sample without replacement, in rising order; a batch of 0, or of records_each and more, is all of them.

    >>> drawn(records_each=10, batch=3, seed=1, round=1, clients=np.array([7, 8])).tolist()
    [[1, 3, 9], [1, 4, 5]]
    """
    whole(records_each=records_each)
    whole(at_least=0, batch=batch, step=step)
    asked = _asked(clients, None)
    if batch == 0 or batch >= records_each:
        return np.tile(np.arange(records_each, dtype=np.int64), (len(asked), 1))
    key = _key(stream(seed, "batch", round=round, client=step))
    out = np.empty((len(asked), batch), np.int64)
    place = np.arange(records_each, dtype=np.uint64)
    low = np.uint64((1 << (records_each - 1).bit_length()) - 1)
    for rows in _blocks(len(asked), records_each):
        words = hashed(key, asked[rows], records_each)
        words &= ~low
        words |= place  # every word of a row differs, so that the least ones are the same whatever the algorithm
        words.partition(batch - 1, axis=1)
        out[rows] = np.sort(words[:, :batch] & low, axis=1)
    return out


def _by_label(dealt: Whole, labels: Whole, seed: int) -> Whole:
    """Row j of the sorted records is a larger and a smaller shard; each kind is dealt out by a shuffle of its own."""
    clients, each = dealt.shape
    deck = dealt.reshape(-1)
    rows = deck[np.argsort(labels[deck], kind="stable")].reshape(clients, each)
    first, second = (_shuffled(clients, stream(seed, "split shards", round=half)) for half in (0, 1))
    larger = (each + 1) // 2
    return np.concatenate([rows[first, :larger], rows[second, larger:]], axis=1)


def _shuffled(count: int, rng: Generator) -> Whole:
    """A permutation by sorting raw words, which no version of numpy changes."""
    return np.argsort(random_words(count, rng), kind="stable").astype(np.int64)


def _key(rng: Generator) -> int:
    return int(random_words(1, rng)[0])


def _below(bound: int, words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """⌊word · bound / 2⁶⁴⌋ in 64-bit arithmetic, bound ≤ 2³²."""
    high, low = words >> _HALF, words & _LOW_HALF
    high *= np.uint64(bound)
    low *= np.uint64(bound)
    low >>= _HALF
    high += low
    high >>= _HALF
    return high


def _asked(clients: Whole, count: int | None) -> Whole:
    asked = np.asarray(clients)
    if asked.ndim != 1 or (asked.size and asked.dtype.kind not in "iu"):
        raise FedprivError(f"clients must be a row of whole numbers, got {asked.dtype} of shape {asked.shape}")
    if asked.size and not (asked.min() >= 0 and (count is None or asked.max() < count)):
        most = "" if count is None else f" to {count - 1}"
        raise FedprivError(f"clients are numbered from 0{most}, got {asked.min()} to {asked.max()}")
    return asked.astype(np.int64, copy=False)


def _blocks(rows: int, width: int) -> Iterator[slice]:
    step = max(1, _BLOCK // width)
    return (slice(start, start + step) for start in range(0, rows, step))
