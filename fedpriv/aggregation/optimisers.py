"""How to step along a direction: SGD with momentum, or Adam; for the server, and for a client's local steps.

What the server's remembers stands in the checkpoint; a client's begins anew in every round.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, NamedTuple, Protocol

import numpy as np

from fedpriv._base.arrays import Vector
from fedpriv.errors import FAULTS, FedprivError, limited, positive, real, reason
from fedpriv.registry import Kind, Registry
from fedpriv.settings import check_fields

FADING = limited("must be in [0, 1)", least=0, below=1)


class Memory(NamedTuple):
    """What an optimiser knows of earlier directions; `squares` is empty where it needs none."""

    velocity: Vector  # a mean or a sum of directions, earlier ones fading
    squares: Vector  # a mean of their squares, earlier ones fading
    steps: int  # taken so far


class Optimiser(Protocol):
    """One way to step."""

    def start(self, dimension: int) -> Memory:
        """What the server's optimiser remembers before the first step, for so many weights."""

    def step(self, memory: Memory, direction: Vector) -> tuple[Memory, Vector]:
        """What the optimiser remembers after a direction; the change of the weights at a step of −1.

        The server subtracts it from the weights, times its `step`.
        """


@dataclass(frozen=True)
class Sgd:
    """v ← momentum·v + d; along v. The server's momentum is `server.momentum`."""

    momentum: Annotated[
        float,
        real,
        limited(least=0),
        limited(below=1),
        "how much of the last step goes on; of the server's, server.momentum",
    ] = 0.0

    def __post_init__(self) -> None:
        """Refuse, for the server's optimiser of a study, a momentum that is not in [0, 1)."""
        check_fields(self)

    def start(self, dimension: int) -> Memory:
        """What the server's optimiser remembers before the first step: a velocity of 0 for each weight."""
        return Memory(np.zeros(dimension), np.zeros(0), 0)

    def step(self, memory: Memory, direction: Vector) -> tuple[Memory, Vector]:
        """What is remembered after a direction, and the weights' change at a step of −1: along the velocity.

        >>> sgd = Sgd(momentum=0.5)
        >>> memory, change = sgd.step(sgd.start(1), np.array([2.0]))
        >>> float(change[0]), float(sgd.step(memory, np.array([2.0]))[1][0])
        (2.0, 3.0)
        """
        velocity = self.momentum * memory.velocity + direction
        return memory._replace(velocity=velocity, steps=memory.steps + 1), velocity


@dataclass(frozen=True, kw_only=True)
class Adam:
    """Along m̂/(√ŝ + floor): means of directions and of their squares, freed of their start at 0. Kingma and Ba 2015."""

    first: Annotated[float, real, FADING, "β₁, how much of the directions' mean goes on"] = 0.9
    second: Annotated[float, real, FADING, "β₂, how much of the squares' mean goes on"] = 0.999
    floor: Annotated[float, positive, "their ε, added to the root of the squares"] = 1e-8

    def __post_init__(self) -> None:
        """Refuse, for the server's optimiser of a study, fadings not in [0, 1), or a floor not positive."""
        check_fields(self)

    def start(self, dimension: int) -> Memory:
        """What the server's optimiser remembers before the first step: means of directions and of squares, all 0."""
        return Memory(np.zeros(dimension), np.zeros(dimension), 0)

    def step(self, memory: Memory, direction: Vector) -> tuple[Memory, Vector]:
        """What is remembered after a direction, and the weights' change at a step of −1: the mean in units of its size.

        The first step has size 1 in each coordinate.

        >>> adam = Adam()
        >>> adam.step(adam.start(2), np.array([5.0, -0.01]))[1].round(5)
        array([ 1., -1.])
        """
        steps = memory.steps + 1
        velocity = self.first * memory.velocity + (1 - self.first) * direction
        squares = self.second * memory.squares + (1 - self.second) * direction**2
        size = np.sqrt(squares / (1 - self.second**steps)) + self.floor
        return Memory(velocity, squares, steps), velocity / (1 - self.first**steps) / size


OPTIMISERS = Registry("optimiser", Optimiser, (Sgd, Adam))


def optimiser_of(table: Kind, momentum: float) -> Optimiser:
    """The server's optimiser that a study's table names, Sgd with this momentum; an error says what is wrong.

    >>> optimiser_of(Kind("Adam"), momentum=0.9)
    Traceback (most recent call last):
    fedpriv.errors.FedprivError: momentum is Sgd's, and Adam has its own: momentum = 0, or optimiser.kind = 'Sgd'
    """
    OPTIMISERS.named(table.kind)
    if table.kind == "Sgd":
        if table.settings:
            given = ", ".join(table.settings)
            raise FedprivError(f"Sgd has no settings here, its momentum is server.momentum; got {given}")
        return Sgd(momentum)
    if momentum:
        raise FedprivError(f"momentum is Sgd's, and {table.kind} has its own: momentum = 0, or optimiser.kind = 'Sgd'")
    return tried_optimiser(table)


def tried_optimiser(table: Kind) -> Optimiser:
    """The optimiser that a table names, the server's or of local steps; somebody's own is tried on two coordinates."""
    own = OPTIMISERS.of(table)
    if ":" not in table.kind:
        return own
    try:
        memory, change = own.step(own.start(2), np.ones(2))
    except FAULTS as error:
        raise FedprivError(f"{table.kind}: {reason(error)}") from error
    if not isinstance(memory, Memory) or np.shape(change) != (2,) or not np.isfinite(change).all():
        raise FedprivError(f"{table.kind}: step must give (memory, change), a Memory and a finite number a coordinate")
    return own
