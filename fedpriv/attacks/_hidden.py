"""Updates that go as far as the spread of the known ones hides them, and one that hides by being one of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np

from fedpriv._base.arrays import Vector
from fedpriv._base.one_thread import one_thread
from fedpriv.attacks._spread import products, squares
from fedpriv.attacks._view import SOME, View
from fedpriv.settings import check_fields

Away = Literal["mean", "deviation", "sign"]
_STEPS = 30  # of a power iteration


@dataclass(frozen=True, kw_only=True)
class MinMax:
    """μ + γp, no farther from any known update than two of them are apart. Shejwalkar and Houmansadr 2021, section IV.

    The largest γ with maxᵢ ‖μ + γp − xᵢ‖ ≤ maxᵢⱼ ‖xᵢ − xⱼ‖ = D, without their search: each row allows γ up to the upper
    root of ‖p‖²γ² + 2⟨p, μ − xᵢ⟩γ + ‖μ − xᵢ‖² − D², and the least of these is it. p = −μ/‖μ‖, −s or −sign μ.
    """

    away: Annotated[Away, "p, the way the mean is left: −μ/‖μ‖, −s or −sign μ"] = "deviation"

    knowledge: ClassVar = SOME

    def __post_init__(self) -> None:
        """Refuse, in a study's table of its attack, a way from the mean that is none of those known."""
        check_fields(self)

    def on_updates(self, updates: Vector, view: View) -> Vector:
        """The update of every attacker alike, hidden within the known ones' spread, in the place of its own."""
        return np.broadcast_to(view.once("row", lambda: self._row(view)), updates.shape)

    def _row(self, view: View) -> Vector:
        """The update all attackers send: μ + γp, γ the largest, as near to each known one as two of them are."""
        towards, rows = _direction(view, self.away), view.known
        first, second = divmod(int(np.argmax(squares(rows))), len(rows))
        widest = _length(rows[first].astype(np.float64) - rows[second])
        steps = []
        for row in rows:  # the γ at which ‖γp + off‖ = D, with ‖p‖ = 1 (or 0, where it does not matter) and ‖off‖ ≤ D
            off = view.mean - row
            along = float((towards * off).sum())
            inside = along * along - float((off * off).sum()) + widest * widest
            steps.append(float(-along + np.sqrt(max(0.0, inside))))
        return np.asarray(view.mean + min(steps) * towards)


@dataclass(frozen=True, kw_only=True)
class MinSum:
    """μ + γp, no farther in all from the known updates than the most remote of them is. Shejwalkar and Houmansadr 2021.

    The largest γ with Σᵢ ‖μ + γp − xᵢ‖² ≤ maxᵢ Σⱼ ‖xᵢ − xⱼ‖². Both sides are n times the squared distance from μ plus
    Σᵢ ‖xᵢ − μ‖², so γ = maxᵢ ‖xᵢ − μ‖ / ‖p‖: no search.
    """

    away: Annotated[Away, "p, the way the mean is left: −μ/‖μ‖, −s or −sign μ"] = "deviation"

    knowledge: ClassVar = SOME

    def __post_init__(self) -> None:
        """Refuse, in a study's table of its attack, a way from the mean that is none of those known."""
        check_fields(self)

    def on_updates(self, updates: Vector, view: View) -> Vector:
        """The update of every attacker alike, hidden within the known ones' spread, in the place of its own."""
        return np.broadcast_to(view.once("row", lambda: self._row(view)), updates.shape)

    def _row(self, view: View) -> Vector:
        """The update all attackers send: μ + γp, γ the largest, in sum as near to the known ones as one of them."""
        towards = _direction(view, self.away)
        farthest = max(_length(row - view.mean) for row in view.known)
        return np.asarray(view.mean + farthest * towards)


@dataclass(frozen=True, kw_only=True)
class Mimic:
    """All send one known client's update, the one farthest along the widest direction. Karimireddy et al. 2022.

    Nothing about it is unusual, but that client's data weigh f + 1 times as much. The paper learns the direction over
    the first rounds and keeps its client; this takes each round's own top eigenvector, and its client.
    """

    knowledge: ClassVar = SOME

    def on_updates(self, updates: Vector, view: View) -> Vector:
        """The update of every attacker alike, a copy of one that it knows, in the place of its own."""
        return np.broadcast_to(view.once("row", lambda: self._row(view)), updates.shape)

    def _row(self, view: View) -> Vector:
        """The known update to be copied: farthest from the mean along the direction in which they vary most."""
        inner = products(view.known)
        place = inner[int(np.argmax(np.diag(inner)))].copy()  # where each row lies on some direction
        with one_thread():
            for _ in range(_STEPS):
                place = inner @ place
                place /= max(float(np.abs(place).max()), np.finfo(float).tiny)
        return np.asarray(view.known[int(np.argmax(np.abs(place)))])


def _direction(view: View, away: Away) -> Vector:
    """The unit vector p along which MinMax and MinSum leave the mean of known updates; zeros where there is none."""
    found = view.mean if away == "mean" else view.deviation if away == "deviation" else np.sign(view.mean)
    length = _length(found)
    return -found / length if length else np.zeros(len(found))


def _length(row: Vector) -> float:
    """The ℓ2 norm of an update, or of a difference of two, for attacks that hide in the known ones' spread."""
    return float(np.sqrt((row * row).sum()))
