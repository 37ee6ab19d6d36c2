"""What is done to an update before it is encoded, so that what is charged for its message is true of it.

Each bound is a frozen value with the number that a ledger is charged for, and is applied to whole matrices, a row a
client. A mechanism's own `encode` brings every coordinate within its peak, whatever precedes it.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Any, Literal, Protocol, assert_never

import numpy as np
from numpy.typing import NDArray

from fedpriv._base.arrays import Vector
from fedpriv.bounds.clipping import Matrix, clip_factors
from fedpriv.errors import FedprivError, positive

Geometry = Literal["l2", "linf"]


@dataclass(frozen=True)
class Norm:
    """Rows longer than `clip` in ℓ2 are shortened to it."""

    clip: float  # ∞ for messages that promise nothing

    def __post_init__(self) -> None:
        """Refuse, in the bound of a channel or an event, a clip not above 0; ∞ is of messages that promise nothing."""
        _check_clip(self.clip)

    def factors(self, updates: Matrix) -> Vector:
        """What each client's update, a row, is multiplied by to be of norm `clip` at most; nan where not finite."""
        return clip_factors(updates, self.clip, "clip")


@dataclass(frozen=True)
class Normalised:
    """Every row but one of zeros is brought to the ℓ2 norm `clip`."""

    clip: float

    def __post_init__(self) -> None:
        """Refuse, in the bound of a channel or an event, a clip that is not a positive number."""
        positive(clip=self.clip)

    def factors(self, updates: Matrix) -> Vector:
        """What each client's update, a row, is multiplied by to be of norm `clip`; nan where not finite."""
        return clip_factors(updates, self.clip, "normalise")


@dataclass(frozen=True)
class Box:
    """Every coordinate is brought within ±`peak`: by the mechanism's own `encode`, so rows go to it as they are."""

    peak: float  # ∞ for messages that promise nothing

    def __post_init__(self) -> None:
        """Refuse, in the bound of a channel or an event, a peak not above 0; ∞ is of messages that promise nothing."""
        _check_clip(self.peak)

    def factors(self, updates: Matrix) -> Vector:
        """1 for each client's update, a row, as encoding clips its coordinates; nan where it is not finite."""
        x = np.asarray(updates)
        return np.where(np.isfinite(x).all(axis=1), 1.0, np.nan)


Bound = Norm | Normalised | Box


@dataclass(frozen=True, eq=False)
class Bounded:
    """Updates with what brings each within a bound; only rows that are finite can be sent.

    >>> Bounded.of(Norm(1.0), np.array([[3.0, 4.0], [np.nan, 0.0]])).finite
    array([ True, False])
    """

    bound: Bound
    rows: Matrix  # as they were
    factors: Vector  # what brings each within the bound; nan where it is not finite

    @staticmethod
    def of(bound: Bound, updates: Matrix) -> Bounded:
        """The updates of a cohort, a row each, with the factor that brings each within the bound before encoding."""
        return Bounded(bound, updates, bound.factors(updates))

    @property
    def finite(self) -> NDArray[np.bool_]:
        """Which of a cohort's updates, a row each, are finite: only of these are messages sent."""
        return np.isfinite(self.factors)

    def only(self, rows: NDArray[Any]) -> Bounded:
        """Some of a cohort's bounded updates, by their rows, such as those that can be sent."""
        return Bounded(self.bound, self.rows[rows], self.factors[rows])

    @property
    def applied(self) -> Vector:
        """A cohort's updates within the bound, as they are when encoded: what attackers and audits see of them."""
        within = self.rows * self.factors[:, None]
        match self.bound:
            case Norm() | Normalised():
                return within
            case Box(peak):
                return np.clip(within, -peak, peak)
            case _ as never:
                assert_never(never)


def geometry_of(bound: Bound | None) -> Geometry | None:
    """What a bound holds, as an event's geometry: "l2" for a norm, "linf" for every coordinate; None for none."""
    match bound:
        case Norm() | Normalised():
            return "l2"
        case Box():
            return "linf"
        case None:
            return None
        case _ as never:
            assert_never(never)


def bound_of(geometry: Geometry | None, *, clip: float, peak: float) -> Bound | None:
    """The bound that an event's geometry in words names, of a mechanism's clip or peak; None where nothing is said."""
    match geometry:
        case "l2":
            return Norm(clip)
        case "linf":
            return Box(peak)
        case None:
            return None
        case _ as never:
            assert_never(never)


class Clipped(Protocol):
    """What is charged for, of whichever of two numbers its inputs are held to."""

    @property
    def clip(self) -> float:
        """The largest ℓ2 norm of an input, which a ledger is charged for."""

    @property
    def peak(self) -> float:
        """The largest size of an input's coordinate, which a ledger is charged for."""


def check_same(bound: Bound, mechanism: Clipped) -> None:
    """Refuse a bound of another number than its mechanism is charged for, in a channel or an event.

    >>> from fedpriv.mechanisms import StochasticSign
    >>> check_same(Norm(2.0), StochasticSign(clip=1.0, scale=4))
    Traceback (most recent call last):
    fedpriv.errors.FedprivError: Norm(clip=2) stands before StochasticSign of clip = 1: they must be the same
    """
    match bound:
        case Norm(number) | Normalised(number):
            name, own = "clip", mechanism.clip
        case Box(number):
            name, own = "peak", mechanism.peak
        case _ as never:
            assert_never(never)
    if number != own:
        raise FedprivError(
            f"{type(bound).__name__}({name}={number:g}) stands before {type(mechanism).__name__} of {name} = {own:g}: "
            "they must be the same"
        )


def _check_clip(clip: float) -> None:
    """Refuse the number of a bound that is not above 0; ∞ is of messages that promise nothing."""
    if clip != inf:
        positive(clip=clip)
