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
        """Refuse what `count` clients cannot do."""

    def asked(self, count: int, seed: int, round: int) -> Numbers:
        """Their numbers, sorted."""

    def surely(self, count: int) -> int:
        """How many are asked in every round at least."""


@dataclass(frozen=True)
class All:
    """Everybody, in every round."""

    def check(self, count: int) -> None:
        """Any number will do."""

    def asked(self, count: int, seed: int, round: int) -> Numbers:
        """0 … count − 1."""
        return np.arange(count)

    def surely(self, count: int) -> int:
        """All of them."""
        return count


@dataclass(frozen=True, kw_only=True)
class Fixed:
    """`number` clients in every round, drawn without replacement."""

    number: Annotated[int, whole, "clients asked in a round"]

    def __post_init__(self) -> None:
        check_fields(self)

    def check(self, count: int) -> None:
        """Refuse to ask more than there are."""
        if self.number > count:
            raise FedprivError(f"participation.number must be at most count = {count}, got {self.number}")

    def asked(self, count: int, seed: int, round: int) -> Numbers:
        """The round's own draw.

        >>> Fixed(number=3).asked(10, seed=1, round=2)
        array([0, 5, 9])
        """
        return np.sort(stream(seed, "participation", round).choice(count, self.number, replace=False, shuffle=False))

    def surely(self, count: int) -> int:
        """The number that every round asks."""
        return self.number


@dataclass(frozen=True, kw_only=True)
class Poisson:
    """Each client by its own coin of bias `rate`. Under local trust and secure aggregation it amplifies nothing."""

    rate: Annotated[float, probability, positive, "how likely a client is asked in a round"]

    def __post_init__(self) -> None:
        check_fields(self)

    def check(self, count: int) -> None:
        """Any number will do."""

    def asked(self, count: int, seed: int, round: int) -> Numbers:
        """The round's own coins."""
        return np.flatnonzero(stream(seed, "participation", round).random(count) < self.rate)

    def surely(self, count: int) -> int:
        """Nobody for certain."""
        return 0


PARTICIPATIONS = Registry("participation", Participation, (All, Fixed, Poisson))


def rounds_of_each(participation: Participation, count: int, seed: int, rounds: int) -> Numbers:
    """How often each client is asked in the rounds 1 … `rounds`.

    >>> rounds_of_each(Fixed(number=3), 6, seed=1, rounds=4).sum()
    np.int64(12)
    """
    if isinstance(participation, All):
        return np.full(count, rounds)
    times = np.zeros(count, np.int64)
    for round in range(1, rounds + 1):
        times[participation.asked(count, seed, round)] += 1
    return times


def byzantine_clients(count: int, number: int, seed: int) -> Numbers:
    """Which clients are Byzantine in the whole run, sorted."""
    return np.sort(stream(seed, "byzantine").choice(count, number, replace=False, shuffle=False))
