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
        """The updates of a round that an attacker may know, bounded for the mechanism; none that is not finite."""


class Foresight(Protocol):
    """What only those have who know everything."""

    @property
    def messages(self) -> Symbols:
        """The symbols that the round's honest clients will send, a row each: for attackers that know everything."""

    def moved(self, row: Vector) -> Vector:
        """The direction the server would step along if every attacker had this update."""


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
    step: float = 1.0  # how far the server goes for an update in this round, counted in what its client went
    one_vote: bool = False  # whether the rule takes one sign of each message, a ClientVote
    memory: dict[str, Any] = field(default_factory=dict)  # of all who see the same

    def __post_init__(self) -> None:
        """The way the model has come is made read-only: attackers share it."""
        object.__setattr__(self, "progress", _to_read(self.progress))

    @property
    def known(self) -> Vector:
        """The updates that the attackers' knowledge allows, bounded, a row a client; refused where there are none."""
        if not len(self.seen.known):
            raise FedprivError(f"knowledge = '{self.knowledge}' shows no update in this round")
        return _to_read(self.seen.known)

    @property
    def messages(self) -> Symbols:
        """The symbols that the round's honest clients will send, a row each; refused unless all is known."""
        return _to_read(self._everything("the honest clients' messages").messages)

    def moved(self, row: Vector) -> Vector:
        """The direction the server would step along if every attacker had this update; refused unless all is known."""
        return self._everything("what the server will make of a message").moved(row)

    @property
    def mean(self) -> Vector:
        """μ, the mean of the updates that the attackers know."""
        return self.once("mean", lambda: np.mean(self.known, axis=0, dtype=np.float64))

    @property
    def deviation(self) -> Vector:
        """s, the standard deviation of the known updates in each coordinate, over n − 1; 0 of a single one."""
        return self.once(
            "deviation",
            lambda: np.sqrt(sum((row - self.mean) ** 2 for row in self.known) / max(1, len(self.known) - 1)),
        )

    def once(self, name: str, make: Callable[[], Vector]) -> Vector:
        """An array that is the same for all attackers who see the same: made for the first, kept for the others."""
        if name not in self.memory:
            self.memory[name] = make()
        return _to_read(self.memory[name])

    def _everything(self, what: str) -> Foresight:
        """What only attackers who know everything see; refused to others, by the name of what they asked for."""
        if self.foresight is None:
            raise FedprivError(f"knowledge = '{self.knowledge}' does not reach {what}: 'everything' does")
        return self.foresight


def _to_read(found: Known) -> Known:
    """What attackers share, such as an array of known updates, read-only: who works in place makes a copy."""
    if isinstance(found, np.ndarray):
        found = found.view()
        found.flags.writeable = False
    return found
