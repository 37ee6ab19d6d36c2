"""Attacks on the message: the mechanism is skipped, and symbols are sent that no honest client would choose."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor
from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from fedpriv._base.arrays import Symbols, Vector
from fedpriv.attacks._view import OWN, View
from fedpriv.errors import positive
from fedpriv.mechanisms import Mechanism
from fedpriv.packed.forms import smallest_type
from fedpriv.settings import check_fields

Direction = Literal["shared", "own"]
REACH = 6  # noise deviations beyond the clip that a message without alphabet still passes as ordinary


@dataclass(frozen=True, kw_only=True)
class OutputPoisoning:
    """The largest or smallest symbol in every coordinate: a debiased mean takes it for ±B, B/r times an honest reach.

    Along a direction that all attackers share in every round ("shared": it needs no knowledge and adds up), or against
    the attacker's own update ("own"; where that is zero, the shared one).
    """

    direction: Annotated[Direction, "one that all attackers share, or against the attacker's own update"] = "shared"

    knowledge: ClassVar = OWN

    def __post_init__(self) -> None:
        """Refuse, in a study's table of its attack, a word for the direction that is none of those known."""
        check_fields(self)

    def on_messages(self, updates: Vector, view: View) -> Symbols | Vector:
        """The attackers' messages: in each coordinate the largest or the smallest symbol, a row each."""
        up = shared_signs(updates, view)
        if self.direction == "own":
            up = np.where(updates == 0, up, updates < 0)
        low, high = extremes(view.mechanism)
        return np.where(up, high, low)


@dataclass(frozen=True, kw_only=True)
class Residue:
    """Under secure aggregation: numbers beyond the alphabet, which nobody can see in a sum modulo 2ʷ.

    All attackers together move each coordinate of the sum by `reach` times half of what honest messages span, in a
    direction that they share in every round: each sends asked/byzantine times as much as any symbol could say. A single
    attacker can do it. Where the sum leaves the range of honest ones it wraps around, and says something else.
    """

    reach: Annotated[float, positive, "how far the sum is moved, in halves of what honest messages span"] = 0.5

    knowledge: ClassVar = OWN

    def __post_init__(self) -> None:
        """Refuse, in a study's table of its attack, a reach that is not positive."""
        check_fields(self)

    def on_residues(self, updates: Vector, view: View) -> NDArray[np.int64]:
        """What attackers add to a sum modulo 2ʷ: a row of whole numbers each, beyond what symbols can say.

        Steps of the alphabet from its end.
        """
        low, high = (int(end) for end in extremes(view.mechanism))
        alphabet = view.mechanism.alphabet
        step = 1 if alphabet is None else alphabet.step
        middle = (high - low) / (2 * step)
        most = middle * self.reach * view.asked / view.byzantine
        steps = np.rint(middle + np.where(shared_signs(updates, view), most, -most)).astype(np.int64)
        return low + step * steps


def shared_signs(updates: Vector, view: View) -> NDArray[np.bool_]:
    """Whether attackers push each coordinate up: a fair coin, the same for all attackers in all rounds."""
    return np.broadcast_to(view.shared().random(updates.shape[1]) < 0.5, updates.shape)


def extremes(mechanism: Mechanism) -> tuple[NDArray[np.generic], NDArray[np.generic]]:
    """A mechanism's smallest and largest symbol, which attackers send; without an alphabet, as far as noise reaches.

    >>> from fedpriv.mechanisms import Ternary
    >>> extremes(Ternary(clip=1, spread=2, scale=4))
    (array(-1, dtype=int8), array(1, dtype=int8))
    """
    if mechanism.alphabet is not None:
        kind = smallest_type(mechanism.alphabet)
        return np.array(mechanism.alphabet[0], kind), np.array(mechanism.alphabet[-1], kind)
    far = mechanism.peak + REACH * float(getattr(mechanism, "noise", 0.0))
    if hasattr(mechanism, "levels"):  # whole numbers around the middle of the grid
        middle, steps = mechanism.levels / 2, far * mechanism.levels / (2 * mechanism.clip)
        return np.array(ceil(middle - steps)), np.array(floor(middle + steps))
    return np.array(-far, np.float32), np.array(far, np.float32)
