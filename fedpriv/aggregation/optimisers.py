"""How the server steps along a direction: SGD with momentum, or Adam. What they remember stands in the checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from fedpriv.arrays import Vector
from fedpriv.errors import FedprivError, positive, real
from fedpriv.kinds import made


class Memory(NamedTuple):
    """What an optimiser knows of earlier directions; `squares` is empty where it needs none."""

    velocity: Vector
    squares: Vector
    steps: int  # taken so far


class Optimiser(Protocol):
    """One way to step."""

    def start(self, dimension: int) -> Memory:
        """What is known before the first step."""

    def step(self, memory: Memory, direction: Vector) -> tuple[Memory, Vector]:
        """What is known then, and the change of the weights at a step of −1."""


@dataclass(frozen=True)
class Sgd:
    """v ← momentum·v + d; along v. The momentum is `server.momentum`."""

    momentum: float = 0.0

    def start(self, dimension: int) -> Memory:
        """No velocity."""
        return Memory(np.zeros(dimension), np.zeros(0), 0)

    def step(self, memory: Memory, direction: Vector) -> tuple[Memory, Vector]:
        """Along the velocity.

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

    first: float = 0.9  # β₁
    second: float = 0.999  # β₂
    floor: float = 1e-8  # their ε

    def __post_init__(self) -> None:
        real(first=self.first, second=self.second)
        for name, value in (("first", self.first), ("second", self.second)):
            if not 0 <= value < 1:
                raise FedprivError(f"{name} must be in [0, 1), got {value}")
        positive(floor=self.floor)

    def start(self, dimension: int) -> Memory:
        """No mean of anything."""
        return Memory(np.zeros(dimension), np.zeros(dimension), 0)

    def step(self, memory: Memory, direction: Vector) -> tuple[Memory, Vector]:
        """Along the mean, each coordinate in units of its size: the first step has size 1.

        >>> adam = Adam()
        >>> adam.step(adam.start(2), np.array([5.0, -0.01]))[1].round(5)
        array([ 1., -1.])
        """
        steps = memory.steps + 1
        velocity = self.first * memory.velocity + (1 - self.first) * direction
        squares = self.second * memory.squares + (1 - self.second) * direction**2
        size = np.sqrt(squares / (1 - self.second**steps)) + self.floor
        return Memory(velocity, squares, steps), velocity / (1 - self.first**steps) / size


KINDS: dict[str, type[Any]] = {"Sgd": Sgd, "Adam": Adam}


def make_optimiser(kind: str, settings: Mapping[str, Any], momentum: float) -> Optimiser:
    """The optimiser of that kind, or one line that says what is wrong.

    >>> make_optimiser("Adam", {}, momentum=0.9)
    Traceback (most recent call last):
    fedpriv.errors.FedprivError: momentum is Sgd's, and Adam has its own: momentum = 0, or optimiser.kind = 'Sgd'
    """
    if kind == "Sgd":
        if settings:
            raise FedprivError(f"Sgd has no settings here, its momentum is server.momentum; got {', '.join(settings)}")
        return Sgd(momentum)
    found: Optimiser = made("optimiser", KINDS, kind, settings)
    if momentum:
        raise FedprivError(f"momentum is Sgd's, and {kind} has its own: momentum = 0, or optimiser.kind = 'Sgd'")
    return found
