"""Who is asked in a round: a function of the study's seed and the round, never of who happens to be there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Protocol

import numpy as np

from fedpriv._base.arrays import Numbers
from fedpriv.errors import FedprivError, positive, probability, whole
from fedpriv.randomness.streams import stream
from fedpriv.registry import Registry
from fedpriv.settings import check_fields


class Participation(Protocol):
    """Which of `count` clients are asked in a round."""

    def check(self, count: int) -> None:
        """Refuse a study whose `count` clients are too few for the way in which rounds ask them."""

    def asked(self, count: int, seed: int, round: int) -> Numbers:
        """The numbers, sorted, of the clients that a round asks: the same for everybody who knows the seed."""

    def surely(self, count: int) -> int:
        """How many of `count` clients every round asks at least: what secure aggregation's promise may count on."""


@dataclass(frozen=True)
class All:
    """Everybody, in every round."""

    def check(self, count: int) -> None:
        """Accept any number of clients: a study can always ask all of them."""

    def asked(self, count: int, seed: int, round: int) -> Numbers:
        """The numbers of the clients that a round asks: 0 … count − 1, all of them."""
        return np.arange(count)

    def surely(self, count: int) -> int:
        """How many clients every round asks at least, for a study's promise: all of them."""
        return count


@dataclass(frozen=True, kw_only=True)
class Fixed:
    """`number` clients in every round, drawn without replacement."""

    number: Annotated[int, whole, "clients asked in a round"]

    def __post_init__(self) -> None:
        check_fields(self)

    def check(self, count: int) -> None:
        """Refuse a study that asks more clients in a round than it has."""
        if self.number > count:
            raise FedprivError(f"participation.number must be at most count = {count}, got {self.number}")

    def asked(self, count: int, seed: int, round: int) -> Numbers:
        """The numbers, sorted, of the clients that a round asks: its own draw without replacement.

        >>> Fixed(number=3).asked(10, seed=1, round=2)
        array([0, 5, 9])
        """
        return np.sort(stream(seed, "participation", round).choice(count, self.number, replace=False, shuffle=False))

    def surely(self, count: int) -> int:
        """How many clients every round asks at least, for a study's promise: exactly `number`."""
        return self.number


@dataclass(frozen=True, kw_only=True)
class Poisson:
    """Each client by its own coin of bias `rate`. Under local trust and secure aggregation it amplifies nothing."""

    rate: Annotated[float, probability, positive, "how likely a client is asked in a round"]

    def __post_init__(self) -> None:
        check_fields(self)

    def check(self, count: int) -> None:
        """Accept any number of clients: each has a coin of its own."""

    def asked(self, count: int, seed: int, round: int) -> Numbers:
        """The numbers, sorted, of the clients that a round asks: those whose coins of that round say so."""
        return np.flatnonzero(stream(seed, "participation", round).random(count) < self.rate)

    def surely(self, count: int) -> int:
        """How many clients every round asks at least, for a study's promise: none for certain."""
        return 0


@dataclass(frozen=True, kw_only=True)
class Cyclic:
    """Clients in so many blocks, by lot; one block in a round, in turn: a client's rounds lie `blocks` apart."""

    blocks: Annotated[int, whole, "blocks of clients, and rounds from one that asks a client to the next"]

    def __post_init__(self) -> None:
        check_fields(self)

    def check(self, count: int) -> None:
        """Refuse a study whose clients are not so many blocks of one size: sums have room for as many each."""
        if count % self.blocks:
            raise FedprivError(f"participation.blocks must divide count = {count}, got {self.blocks}")

    def asked(self, count: int, seed: int, round: int) -> Numbers:
        """The numbers, sorted, of the clients that a round asks: the block whose turn it is.

        >>> [Cyclic(blocks=2).asked(6, seed=1, round=round).tolist() for round in (1, 2, 3)]
        [[1, 2, 3], [0, 4, 5], [1, 2, 3]]
        """
        order = stream(seed, "participation").permutation(count)
        return np.sort(order[(round - 1) % self.blocks :: self.blocks])

    def surely(self, count: int) -> int:
        """How many clients every round asks, for a study's promise: those of a block."""
        return count // self.blocks


PARTICIPATIONS = Registry("participation", Participation, (All, Fixed, Poisson, Cyclic))


def rounds_of_each(participation: Participation, count: int, seed: int, rounds: int) -> Numbers:
    """How often each client is asked in the rounds 1 … `rounds`, for what a study promises to give away at most.

    >>> rounds_of_each(Fixed(number=3), 6, seed=1, rounds=4).sum()
    np.int64(12)
    """
    if type(participation) is All:
        return np.full(count, rounds)
    times = np.zeros(count, np.int64)
    for round in range(1, rounds + 1):
        times[participation.asked(count, seed, round)] += 1
    return times


def byzantine_clients(count: int, number: int, seed: int) -> Numbers:
    """The numbers, sorted, of the clients that misbehave in the whole run: drawn once by the study's seed."""
    return np.sort(stream(seed, "byzantine").choice(count, number, replace=False, shuffle=False))
