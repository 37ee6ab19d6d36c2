"""The points of a sweep's grid: means over their seeds, and the worst of the attacks on a defence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean, stdev
from typing import NamedTuple

from server.progress.words import share_words
from simulations.report.sweep._axes import Role
from simulations.report.sweep.cells import Cell

Key = tuple[int, ...]  # which value of each axis of one role, in the order of the axes


class Spread(NamedTuple):
    """A mean over seeds, and how far the seeds scatter: their standard deviation, None of a single one."""

    mean: float
    deviation: float | None
    low: float  # of the worst seed
    high: float  # of the best
    seeds: int  # how many


def spread(values: Sequence[float]) -> Spread | None:
    """The mean and scatter of values; None where there are none.

    >>> spread([0.8, 0.9]).mean, round(spread([0.8, 0.9]).deviation, 4), spread([0.8]).deviation
    (0.8500000000000001, 0.0707, None)
    """
    if not values:
        return None
    return Spread(fmean(values), stdev(values) if len(values) > 1 else None, min(values), max(values), len(values))


def at_most(value: float | None, partial: bool) -> str:
    """An accuracy in words; where it is `partial`, attacks are missing that can only make it less.

    >>> at_most(0.5, partial=True), at_most(0.5, partial=False)
    ('≤ 0.500', '0.500')
    """
    return f"{'≤ ' * partial}{share_words(value)}"


class Condition(NamedTuple):
    """What a defence is up against, the attack apart."""

    setting: Key
    privacy: Key
    attackers: Key  # how many there are


@dataclass(frozen=True, eq=False)
class Spot:
    """One point of the grid: the cells that differ in their seeds alone."""

    defence: Key
    attack: Key
    condition: Condition
    cells: tuple[Cell, ...]  # one a seed

    def key(self, of: Role) -> Key:
        """Where the spot stands on the axes of one role."""
        found: Key = getattr(self if of in ("defence", "attack") else self.condition, of)
        return found

    @cached_property
    def counted(self) -> list[Cell]:
        """The cells that have an accuracy to count."""
        return [cell for cell in self.cells if cell.accuracy is not None]

    @cached_property
    def accuracy(self) -> Spread | None:
        """The accuracy over the seeds that are done; None where none is."""
        return spread([cell.accuracy for cell in self.counted if cell.accuracy is not None])

    @property
    def untried(self) -> bool:
        """Whether its attack failed by itself in every cell."""
        return all(cell.state == "untried" for cell in self.cells)

    @property
    def attacked(self) -> bool:
        """Whether somebody is Byzantine."""
        return any(cell.ran.byzantine for cell in self.counted if cell.ran)

    @cached_property
    def curve(self) -> list[tuple[int, Spread]]:
        """Accuracy by round, in the rounds in which every seed that counts was measured."""
        curves = [dict(cell.ran.curve) for cell in self.counted if cell.ran]
        common = sorted(set.intersection(*map(set, curves))) if curves else []
        spreads = ((number, spread([curve[number] for curve in curves])) for number in common)
        return [(number, found) for number, found in spreads if found]

    def mean(self, name: str) -> float | None:
        """The mean of a number that every run has, over the seeds that count."""
        values = [getattr(cell.ran, name) for cell in self.counted]
        return fmean(values) if values and None not in values else None

    @property
    def upper(self) -> float | None:
        """The largest certified ε of any seed that counts; None where one has none."""
        values = [cell.ran.upper for cell in self.counted if cell.ran]
        return max(value for value in values if value is not None) if values and None not in values else None


@dataclass(frozen=True, eq=False)
class Field:
    """One defence in one condition, under every attack."""

    defence: Key
    condition: Condition
    spots: tuple[Spot, ...]  # one an attack

    @cached_property
    def known(self) -> list[Spot]:
        """The attacks of which something is known."""
        return [spot for spot in self.spots if spot.accuracy]

    @cached_property
    def worst(self) -> Spot | None:
        """The attack that leaves the least accuracy on average over seeds; of equals the first."""
        return min(self.known, key=lambda spot: spot.accuracy.mean if spot.accuracy else 1.0, default=None)

    @cached_property
    def mean(self) -> float | None:
        """What the worst attack leaves; where attacks are missing, the truth is this at most."""
        return self.worst.accuracy.mean if self.worst and self.worst.accuracy else None

    @property
    def partial(self) -> bool:
        """Whether attacks are missing."""
        return len(self.known) < len(self.spots)

    @property
    def words(self) -> str:
        """What is left, as far as is known."""
        return at_most(self.mean, self.partial)

    @property
    def lacking(self) -> str:
        """What is not there yet, in words; "" where all is."""
        if self.partial:
            return f"{len(self.known)} of {len(self.spots)} attacks"
        counted, cells = (sum(len(getattr(spot, name)) for spot in self.spots) for name in ("counted", "cells"))
        return f"{counted} of {cells} cells" if counted < cells else ""
