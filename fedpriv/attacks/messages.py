"""Attacks on the message: the mechanism is skipped, and the worst symbols of its alphabet are sent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from fedpriv.arrays import Symbols, Vector
from fedpriv.errors import one_of
from fedpriv.mechanisms import Mechanism
from fedpriv.packed_forms import smallest

Direction = Literal["shared", "own"]
REACH = 6  # noise deviations beyond the clip that a message without alphabet still passes as ordinary


@dataclass(frozen=True, kw_only=True)
class OutputPoisoning:
    """The largest or smallest symbol in every coordinate: a debiased mean takes it for ±B, B/r times an honest reach.

    Along a direction that all attackers share in every round ("shared": it needs no knowledge and adds up), or against
    the attacker's own update ("own"; where that is zero, the shared one).
    """

    direction: Direction = "shared"

    def __post_init__(self) -> None:
        one_of(get_args(Direction), direction=self.direction)

    def on_messages(self, updates: Vector, mechanism: Mechanism, shared: Generator) -> Symbols | Vector:
        """A row of symbols for each attacker; `shared` is the same generator for all, in every round.

        >>> from fedpriv.mechanisms import Binomial
        >>> attack, rng = OutputPoisoning(direction="own"), np.random.default_rng(1)
        >>> attack.on_messages(np.array([[0.5, -0.5]]), Binomial(clip=1, scale=4, trials=4), rng)
        array([[0, 4]], dtype=uint8)
        """
        up = np.broadcast_to(shared.random(updates.shape[1]) < 0.5, updates.shape)
        if self.direction == "own":
            up = np.where(updates == 0, up, updates < 0)
        low, high = extremes(mechanism)
        return np.where(up, high, low)


def extremes(mechanism: Mechanism) -> tuple[NDArray[np.generic], NDArray[np.generic]]:
    """The smallest and the largest symbol; without an alphabet, as far as ordinary noise reaches.

    >>> from fedpriv.mechanisms import Ternary
    >>> extremes(Ternary(clip=1, spread=2, scale=4))
    (array(-1, dtype=int8), array(1, dtype=int8))
    """
    if mechanism.alphabet is not None:
        kind = smallest(mechanism.alphabet)
        return np.array(mechanism.alphabet[0], kind), np.array(mechanism.alphabet[-1], kind)
    far = mechanism.peak + REACH * float(getattr(mechanism, "noise", 0.0))
    if hasattr(mechanism, "levels"):  # whole numbers around the middle of the grid
        middle, steps = mechanism.levels / 2, far * mechanism.levels / (2 * mechanism.clip)
        return np.array(round(middle - steps)), np.array(round(middle + steps))
    return np.array(-far, np.float32), np.array(far, np.float32)
