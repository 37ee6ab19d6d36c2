"""How records are divided over clients: whose they are, a function of the seed and the client's own number alone.

It does not depend on who else is asked, in which order, or where.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol, get_args

import numpy as np
from numpy.random import Generator

from clients.data.counter_hash import by_blocks, hashed_words, numbers_below
from fedpriv._base.arrays import Numbers
from fedpriv.errors import FedprivError, at_most, natural, one_of, whole
from fedpriv.population.dealing import Dealing, Hands, Shards, Users, shuffled_numbers
from fedpriv.randomness.streams import random_words, stream
from fedpriv.registry import kind_of
from fedpriv.studies.clients import Split


class Even(Protocol):
    """Whose the records are, where every client has as many."""

    @property
    def disjoint(self) -> bool:
        """Whether no record is at two clients: only then does hiding a client hide its records, or a release do."""

    @property
    def clients(self) -> int:
        """How many clients a study's records are divided among."""

    @property
    def records_each(self) -> int:
        """How many of a study's records each client holds."""

    def of(self, clients: Numbers) -> Numbers:
        """The pool's record numbers that these clients hold, (clients, records_each): what each of them trains on."""


@dataclass(frozen=True, eq=False)
class Uneven:
    """Every record at one client at most: client c's stand from starts[c] to starts[c + 1]."""

    records: Numbers  # the numbers of all records that are dealt, client after client
    starts: Numbers  # where in them each client's begin, and where the last one's end: (clients + 1,)
    disjoint: ClassVar[bool] = True

    @property
    def clients(self) -> int:
        """How many clients records are dealt among, a study's or a node's own; each has its own number of them."""
        return len(self.starts) - 1

    def sizes(self, clients: Numbers) -> Numbers:
        """How many records each of these clients holds, from which its batches follow."""
        asked = checked_clients(clients, self.clients)
        return self.starts[asked + 1] - self.starts[asked]

    def of(self, clients: Numbers, places: Numbers) -> Numbers:
        """The pool's record numbers at those places, from 0, of what each client holds: (clients, records), a batch."""
        starts, ends = (self.starts[checked_clients(clients, self.clients) + further, None] for further in (0, 1))
        if not ((places >= 0) & (places < ends - starts)).all():
            raise FedprivError("places must be from 0 to one below the client's size")
        found: Numbers = self.records[starts + places]
        return found


Division = Even | Uneven


def divided_records(
    split: Split | Dealing,
    labels: Numbers,
    clients: int,
    records_each: int,
    seed: int,
    owners: Numbers | None = None,  # of each record, where its data say whose it is
) -> Division:
    """Divide a study's records, which bear these labels, among its clients: so many each, or on average if uneven.

    `iid`: dealt out from a shuffled deck. `by-label`: the same as `Shards(each=2)`, most clients see two labels.
    `pool`: every client draws its own from all of them, with replacement, whatever their number; a record may then be
    at many clients, and what protects a client protects no record. `in-order`: each takes the records that stand next,
    for data that are stored client by client (and read without a copy); past the last one they begin again. `natural`:
    the same as `Users()`, each has those that the data say are its own. Any other way is one of
    `fedpriv.population.dealing`.

    >>> labels = np.array([0, 1, 0, 1, 0, 1])
    >>> divided_records("iid", labels, clients=3, records_each=2, seed=1).of(np.array([2, 0])).tolist()
    [[3, 4], [2, 5]]
    """
    if isinstance(split, str):
        one_of(get_args(Split), split=split)
    whole(clients=clients, records_each=records_each)
    natural(seed=seed)
    if not len(labels):
        raise FedprivError("there are no records to divide")
    if split == "in-order":
        return InOrder(clients, records_each, len(labels))
    if split == "pool":
        at_most("2^32", 2**32, records=len(labels))
        return Drawn(clients, records_each, len(labels), key_of(stream(seed, "split pool")))
    split = Users() if split == "natural" else split
    if getattr(split, "by_user", False):
        if owners is None:
            raise FedprivError("split: these data do not say whose each record is")
        deck, known = np.arange(len(labels)), owners
    elif clients * records_each <= len(labels):
        deck = shuffled_numbers(len(labels), stream(seed, "split deck"))[: clients * records_each]
        known = labels[deck]
    else:
        raise FedprivError(
            f"{clients} clients of {records_each} record(s) each need {clients * records_each:,} records, "
            f'but there are {len(labels):,}: ask for fewer, or split = "pool"'
        )
    hands = _hands(split, known, clients, seed)
    dealt = deck[hands.places]
    if np.ptp(hands.sizes):
        return Uneven(dealt, np.concatenate([[0], np.cumsum(hands.sizes)]))
    return Dealt(dealt.reshape(clients, -1))


def _hands(split: str | Dealing, labels: Numbers, clients: int, seed: int) -> Hands:
    """Whose each place of the shuffled deck is: by labels, evenly, or by a dealing of the study's, which is checked."""
    if isinstance(split, str):
        if split == "by-label":
            return Shards(each=2).dealt(labels, clients, seed)
        return Hands(np.arange(len(labels)), np.full(clients, len(labels) // clients))
    split.check(len(labels) // clients)
    places, sizes = split.dealt(labels, clients, seed)
    once = len(np.unique(places)) == len(places) == np.sum(sizes)
    if not (once and len(sizes) == clients and np.min(sizes) >= 1):
        raise FedprivError(f"{kind_of(split)} must deal each record once at most, some to all {clients} clients")
    return Hands(places, sizes)


@dataclass(frozen=True, eq=False)
class Dealt:
    """Every record at one client at most, from a table of all of them."""

    table: Numbers  # (clients, records_each)
    disjoint: ClassVar[bool] = True

    @property
    def clients(self) -> int:
        """How many clients a study's records are dealt to, as many to each."""
        return len(self.table)

    @property
    def records_each(self) -> int:
        """How many of a study's records each client is dealt."""
        return int(self.table.shape[1])

    def of(self, clients: Numbers) -> Numbers:
        """The pool's record numbers that these clients were dealt, (clients, records_each), from the table of all."""
        return self.table[checked_clients(clients, self.clients)]


@dataclass(frozen=True)
class InOrder:
    """Client c's records are c·r, c·r + 1, … of the pool, beginning again at its end."""

    clients: int
    records_each: int  # r
    records: int  # in the pool

    @property
    def disjoint(self) -> bool:
        """Whether the pool has enough records for all clients, so that none is at two of them."""
        return self.clients * self.records_each <= self.records

    def of(self, clients: Numbers) -> Numbers:
        """The pool's record numbers of these clients, (clients, records_each), which stand one after another."""
        asked = checked_clients(clients, self.clients)
        return (asked[:, None] * self.records_each + np.arange(self.records_each)) % self.records


@dataclass(frozen=True)
class Drawn:
    """Client c's record r is number ⌊hash(key, c, r) · records / 2⁶⁴⌋: no table, whatever the number of clients.

    No record's probability is off by more than 2⁻⁶⁴, from rounding down.
    """

    clients: int
    records_each: int
    records: int  # in the pool
    key: int  # of `hashed`
    disjoint: ClassVar[bool] = False

    def of(self, clients: Numbers) -> Numbers:
        """The pool's record numbers that these clients draw by hash, with replacement: (clients, records_each)."""
        asked = checked_clients(clients, self.clients)
        out = np.empty((len(asked), self.records_each), np.int64)
        for rows in by_blocks(len(asked), self.records_each):
            out[rows] = numbers_below(self.records, hashed_words(self.key, asked[rows], self.records_each))
        return out


@dataclass(frozen=True)
class Part:
    """Of what each client holds, the records from one place up to another: so that some are kept out of training."""

    whole: Even
    first: int
    last: int

    @property
    def disjoint(self) -> bool:
        """Whether no record is at two clients, in the whole of what they hold."""
        return self.whole.disjoint

    @property
    def clients(self) -> int:
        """How many clients a study's records are divided among."""
        return self.whole.clients

    @property
    def records_each(self) -> int:
        """How many records of each client are in this part."""
        return self.last - self.first

    @property
    def rest(self) -> Part:
        """What each client holds from where this part ends: what it is asked about, where it trains on this one."""
        return Part(self.whole, self.last, self.whole.records_each)

    def of(self, clients: Numbers) -> Numbers:
        """The pool's record numbers in this part of what these clients hold: (clients, records_each)."""
        return np.ascontiguousarray(self.whole.of(clients)[:, self.first : self.last])


def records_of(division: Division, client: int) -> Numbers:
    """The pool's record numbers of one client under any division: what its release, or what it keeps, is made of."""
    who = np.array([client])
    if isinstance(division, Uneven):
        return np.asarray(division.of(who, np.arange(division.sizes(who)[0])[None])[0])
    return np.asarray(division.of(who)[0])


def checked_clients(clients: Numbers, count: int | None) -> Numbers:
    """Client numbers as an int64 row, refused where a division, or a draw of batches, knows no such client."""
    asked = np.asarray(clients)
    if asked.ndim != 1 or (asked.size and asked.dtype.kind not in "iu"):
        raise FedprivError(f"clients must be a row of whole numbers, got {asked.dtype} of shape {asked.shape}")
    if asked.size and not (asked.min() >= 0 and (count is None or asked.max() < count)):
        most = "" if count is None else f" to {count - 1}"
        raise FedprivError(f"clients are numbered from 0{most}, got {asked.min()} to {asked.max()}")
    return asked.astype(np.int64, copy=False)


def key_of(rng: Generator) -> int:
    """A generator's next 64 bits as the key of `hashed_words`, which chooses clients' records, batches, corruptions."""
    return int(random_words(1, rng)[0])
