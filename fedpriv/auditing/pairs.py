"""The inputs that canaries hold: x against −x, along one direction, long enough that the bound must shorten them."""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedpriv.accounting.event import Event, levels_of
from fedpriv.auditing.laws import symbol_law
from fedpriv.curves.compose import ROUGH, Composition, compose
from fedpriv.errors import FedprivError
from fedpriv.mechanisms import Gaussian, GeneralPtr, Histogram, Laplace, Ptr
from fedpriv.mechanisms.abilities import FiniteNoise

LONGER = 4.0  # how far past the bound a canary's update is before it is held to it
NEARLY = 0.99  # of the largest advantage: pairs that have as much are as good
REALS = 1e-3  # more than the chance that two draws of real noise are the same number


class Pair(NamedTuple):
    """±level on so many coordinates, 0 on the others, and how well the messages of all rounds tell them apart."""

    level: float  # in the data's units
    coordinates: int
    advantage: float  # of the best attacker of explicit data: 1 − α − β


def pair_of(event: Event) -> Pair:
    """The pair ±x that an audit's canaries hold: the one told apart best; among those nearly as good the widest.

    A wide one reaches its level only if its norm is clipped, so it sees whether it is.

    >>> from fedpriv.accounting.event import by_hand
    >>> from fedpriv.mechanisms import StochasticSign
    >>> own = StochasticSign(clip=1.0, peak=0.2, scale=8.0)
    >>> pair_of(by_hand(own, geometry="l2", dimension=650, rounds=40)).coordinates
    650
    """
    apart = [(level, count, _together(event, level, count)) for level, count in levels_of(event)]
    found = [Pair(level, count, releases.delta(0.0, ROUGH).lower) for level, count, releases in apart]
    best = max(pair.advantage for pair in found)
    good = [pair for pair in found if pair.advantage >= NEARLY * best]
    return max(good, key=lambda pair: pair.coordinates)


def most_told(event: Event, pair: Pair) -> float:
    """The largest share of an audit's fair coins that the best guesser of a pair can tell, an upper bound."""
    return (1 + _together(event, pair.level, pair.coordinates).delta(0.0).upper) / 2


def _together(event: Event, level: float, coordinates: int) -> Composition:
    """The composed curve of an event's messages in all rounds, between ±level on so many coordinates."""
    assert not isinstance(event.mechanism, Ptr | Histogram | GeneralPtr)  # whose releases are no messages
    return compose(((event.mechanism.between(level, -level), coordinates * event.rounds),))


@dataclass(frozen=True)
class Canaries:
    """Rows of updates that hold x or −x."""

    pair: Pair  # x and −x
    dimension: int  # coordinates of a row, of which the first hold the pair

    def updates(self, held: NDArray[np.bool_]) -> NDArray[np.float32]:
        """The updates of an audit's canaries, a float32 row each: longer than the bound, along x if `held`, else −x."""
        rows = np.zeros((len(held), self.dimension), np.float32)
        rows[:, : self.pair.coordinates] = LONGER * self.pair.level * np.where(held, 1.0, -1.0)[:, None]
        return rows


def told_apart(event: Event, messages: int) -> bool:
    """Whether two of so many honest messages are surely not the same, so that an audit may take repeats for faults."""
    mechanism = event.mechanism
    match mechanism:  # the largest chance that two independent symbols are the same, whatever is sent
        case Gaussian() | Laplace() | Ptr():
            same = REALS
        case FiniteNoise():
            same = float(np.exp(2 * mechanism.law[1]).sum())
        case _:
            laws = [symbol_law(mechanism, x)[1] for x in (0.0, mechanism.peak)]
            same = float(max((law**2).sum() for law in laws))
    pairs = log(messages) * 2
    return pairs + event.dimension * log(same) < log(1e-9)


def keys_of(payload: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """A 64-bit number for each message of an audit, by which repeats are found: the same only for the same bytes.

    But for one pair in 2⁶⁴.

    >>> keys = keys_of(np.array([[1, 2], [1, 2], [2, 1]], np.uint8))
    >>> (keys[0] == keys[1], keys[0] == keys[2])
    (np.True_, np.False_)
    """
    if payload.ndim != 2:
        raise FedprivError(f"messages are rows of bytes, got the shape {payload.shape}")
    padded = np.zeros((len(payload), -(-payload.shape[1] // 8) * 8), np.uint8)
    padded[:, : payload.shape[1]] = payload
    words = padded.view(np.uint64)
    weights = np.random.Generator(np.random.Philox(key=7)).integers(
        0, 2**64 - 1, words.shape[1], np.uint64
    ) | np.uint64(1)
    mixed = (words ^ (words >> np.uint64(29))) * weights  # what wraps is meant to
    return np.asarray((mixed ^ (mixed >> np.uint64(32))).sum(axis=1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15))


def repeated_messages(keys: NDArray[np.uint64]) -> int:
    """How many of an audit's messages, by their keys, are the same as one before: noise that was used again."""
    return int(keys.size - np.unique(keys).size)
