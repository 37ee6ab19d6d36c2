"""What an attacker knows in a round, and nothing else: asking for more is an error.

Knowledge "own" is the attacker's own update; "byzantine" those of all attackers asked in the round; "everything" those
of all honest clients asked, the messages they will send, and what the server will make of any message against them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeVar

import numpy as np
from numpy.random import Generator

from fedpriv._base.arrays import Symbols, Vector
from fedpriv.errors import FedprivError
from fedpriv.mechanisms import Mechanism

Known = TypeVar("Known")
Knowledge = Literal["own", "byzantine", "everything"]

# What an attack can work with, the default first.
OWN: tuple[Knowledge, ...] = ("own",)
SOME: tuple[Knowledge, ...] = ("byzantine", "everything")
ALL: tuple[Knowledge, ...] = ("everything",)


class Silent(Exception):
    """What an attack raises that means to send nothing: any other exception says that it could not be carried out."""


class Seen(Protocol):
    """The updates that a view looks at; nothing is worked out before it is asked for."""

    @property
    def known(self) -> Vector:
        """The updates that can be known, clipped as they go into the mechanism; those that are not finite are not."""


class Foresight(Protocol):
    """What only those have who know everything."""

    @property
    def messages(self) -> Symbols:
        """The symbols that the honest clients will send, a row for each of them."""

    def moved(self, row: Vector) -> Vector:
        """The server's direction, if every attacker sent that update."""


@dataclass(frozen=True, kw_only=True, eq=False)
class View:
    """What the attackers at hand see."""

    knowledge: Knowledge  # as the study gives it
    seen: Seen  # the updates that can be known
    foresight: Foresight | None = None  # with knowledge of everything
    generators: Callable[[], Sequence[Generator]]  # one for each attacker, its own in each round, at its beginning
    shared: Callable[[], Generator]  # the same for all attackers in all rounds
    mechanism: Mechanism  # of the study, which makes messages of updates
    asked: int  # clients in this round, n
    byzantine: int  # attackers among them, f
    progress: Vector  # the weights now less the initial ones
    one_vote: bool = False  # whether the rule takes one sign of each message, a ClientVote
    memory: dict[str, Any] = field(default_factory=dict)  # of all who see the same

    def __post_init__(self) -> None:
        object.__setattr__(self, "progress", _to_read(self.progress))

    @property
    def known(self) -> Vector:
        """The updates that the knowledge allows, clipped, a row a client."""
        if not len(self.seen.known):
            raise FedprivError(f"knowledge = '{self.knowledge}' shows no update in this round")
        return _to_read(self.seen.known)

    @property
    def messages(self) -> Symbols:
        """The symbols the honest clients will send in this round."""
        return _to_read(self._everything("the honest clients' messages").messages)

    def moved(self, row: Vector) -> Vector:
        """The direction that the study's whole chain would give if every attacker sent this update."""
        return self._everything("what the server will make of a message").moved(row)

    @property
    def mean(self) -> Vector:
        """μ, the mean of the known updates."""
        return self.once("mean", lambda: np.mean(self.known, axis=0, dtype=np.float64))

    @property
    def deviation(self) -> Vector:
        """s, their standard deviation coordinate by coordinate, with n − 1 below the root; 0 of a single row."""
        return self.once(
            "deviation",
            lambda: np.sqrt(sum((row - self.mean) ** 2 for row in self.known) / max(1, len(self.known) - 1)),
        )

    def once(self, name: str, make: Callable[[], Vector]) -> Vector:
        """What is the same for all attackers who see the same: made for the first of them, kept for the others."""
        if name not in self.memory:
            self.memory[name] = make()
        return _to_read(self.memory[name])

    def _everything(self, what: str) -> Foresight:
        """What those have who know everything; refused to others, who asked for `what`."""
        if self.foresight is None:
            raise FedprivError(f"knowledge = '{self.knowledge}' does not reach {what}: 'everything' does")
        return self.foresight


def _to_read(found: Known) -> Known:
    """What other attackers see too, an array mostly: who works in place makes a copy."""
    if isinstance(found, np.ndarray):
        found = found.view()
        found.flags.writeable = False
    return found
