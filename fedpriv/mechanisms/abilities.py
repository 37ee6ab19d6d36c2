"""What some mechanisms can do beyond what all can: asked for by `isinstance`, never by a name in a string."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from fedpriv._base.arrays import Vector
from fedpriv.curves.tradeoff import Tradeoff
from fedpriv.mechanisms.votes import Binomial
from fedpriv.trust import Adjacency, Trust, Unit


@runtime_checkable
class Voting(Protocol):
    """A symbol counts votes for plus, each with the same chance."""

    def chance(self, x: Vector) -> Vector:
        """The chance that a client's vote is for plus, at each coordinate x of its update."""


@runtime_checkable
class AddsUp(Protocol):
    """The noise in a sum of messages is that of a mechanism of the same kind."""

    def aggregated(self, clients: int) -> Any:
        """The mechanism whose one message has the noise of `clients` summed: the ε of secure aggregation is its."""


@runtime_checkable
class FiniteNoise(Protocol):
    """Noise on a grid, with a law that can be written down."""

    @property
    def law(self) -> tuple[NDArray[Any], Vector]:
        """The values of the noise and the logarithms of their probabilities, for curves and for audits."""


@runtime_checkable
class FiniteLaw(Protocol):
    """A symbol of a finite alphabet, whose probabilities can be written down for every input."""

    @property
    def alphabet(self) -> range:
        """What may be sent."""

    def symbol_law(self, x: float) -> Vector:
        """P(symbol | x) of each symbol of the alphabet, in its order, for a number within the peak."""


@runtime_checkable
class Gapped(Protocol):
    """Of its alphabet only some numbers are ever sent: they are packed by their places."""

    @property
    def numbers(self) -> tuple[int, ...]:
        """Those that are, rising."""


@runtime_checkable
class Paired(Protocol):
    """The inputs that are told apart best are not always ±peak."""

    @property
    def worst_inputs(self) -> list[tuple[float, float]]:
        """Pairs of inputs, each told apart best at some ε."""


@runtime_checkable
class Proved(Protocol):
    """It says itself why no pair of inputs gives away more than its curve."""

    @property
    def proof(self) -> str:
        """In words."""


@runtime_checkable
class Particular(Protocol):
    """It is proved of some events alone, and says itself of which."""

    def check_event(self, unit: Unit, trust: Trust, sampling: float, rounds: int) -> None:
        """Refuse an event of the mechanism with these facts, where nothing proved speaks of it."""


@runtime_checkable
class OneRelease(Protocol):
    """It is one Gaussian release of a whole vector, whatever the dimension, and says itself why."""

    @property
    def proof(self) -> str:
        """In words."""

    def tradeoff(self, adjacency: Adjacency) -> Tradeoff:
        """The Gaussian curve that certifies it."""

    def reached(self, adjacency: Adjacency) -> tuple[str, Tradeoff]:
        """Explicit data in words, and the curve that they reach: its lower bound."""


def trials_of(mechanism: object) -> int:
    """M, how many votes a coordinate of a voting mechanism's message holds: its `trials`, or 1.

    >>> from fedpriv.mechanisms import StochasticSign
    >>> trials_of(StochasticSign(clip=1, scale=2)), trials_of(Binomial(clip=1, scale=2, trials=4))
    (1, 4)
    """
    return mechanism.trials if isinstance(mechanism, Binomial) else 1


def votes_of(mechanism: Any) -> tuple[int, float]:
    """(M, p_max) of a mechanism that votes: votes a coordinate, and the largest chance of a +, for bounds of sums."""
    return trials_of(mechanism), share_at(mechanism, mechanism.peak)


def share_at(mechanism: Any, level: float) -> float:
    """The chance that a mechanism's vote is + at an input `level`."""
    return float(mechanism.chance(np.array(level)))
