"""The points of a sweep's grid: means over their seeds, and the worst of the attacks on a defence."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from statistics import fmean
from typing import Literal, NamedTuple

from simulations.figures.intervals import Interval, interval_of, interval_words
from simulations.report.sweep._axes import Role
from simulations.report.sweep.cells import Cell

Measure = Literal["accuracy", "backdoor"]
Key = tuple[int, ...]  # which value of each axis of one role, in the order of the axes


def at_most(found: Interval | None, partial: bool) -> str:
    """A sweep's accuracy in words; "≤" before it where attacks are missing (`partial`) that can only lower it.

    >>> at_most(interval_of([0.5]), partial=True), at_most(interval_of([0.5, 0.5]), partial=False)
    ('≤ 0.500', '0.500 ± 0.000')
    """
    return f"{'≤ ' * partial}{interval_words(found)}"


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
        """Which values this spot has on the axes of one role: of the defence, the attack, the privacy, …"""
        found: Key = getattr(self if of in ("defence", "attack") else self.condition, of)
        return found

    @cached_property
    def counted(self) -> list[Cell]:
        """The cells of this spot, which differ in their seeds alone, that are done and have an accuracy."""
        return [cell for cell in self.cells if cell.accuracy is not None]

    @cached_property
    def accuracy(self) -> Interval | None:
        """The accuracy's mean and interval over the seeds of this spot that are done; None where none is."""
        return interval_of(list(self.by_seed().values()))

    @cached_property
    def backdoor(self) -> Interval | None:
        """A backdoor's success, its mean and interval over the seeds of this spot that are done; None without any."""
        return interval_of(list(self.by_seed("backdoor").values()))

    def by_seed(self, measure: Measure = "accuracy") -> dict[int, float]:
        """What the runs of this spot that count measured, by their seeds: pairs are made by them."""
        values = ((cell.seed, getattr(cell.ran, measure)) for cell in self.counted)
        return {seed: value for seed, value in values if value is not None}

    @property
    def untried(self) -> bool:
        """Whether the attack failed by itself in every cell of this spot, so that nothing is known of it."""
        return all(cell.state == "untried" for cell in self.cells)

    @property
    def attacked(self) -> bool:
        """Whether any client was Byzantine in this spot's cells."""
        return any(cell.ran.byzantine for cell in self.counted if cell.ran)

    @cached_property
    def curve(self) -> list[tuple[int, Interval]]:
        """The spot's accuracy by round, mean and interval, in the rounds that every seed that counts measured."""
        curves = [dict(cell.ran.curve) for cell in self.counted if cell.ran]
        common = sorted(set.intersection(*map(set, curves))) if curves else []
        intervals = ((number, interval_of([curve[number] for curve in curves])) for number in common)
        return [(number, found) for number, found in intervals if found]

    def mean(self, name: str) -> float | None:
        """The mean over the spot's seeds of a number of their runs by its name, such as client_bytes."""
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
        """The spots of this field, one for each attack on a defence in a condition, that have an accuracy."""
        return [spot for spot in self.spots if spot.accuracy]

    @cached_property
    def worst(self) -> Spot | None:
        """The attack that leaves this defence the least mean accuracy, as its spot; of equals the first."""
        found = self.worst_by("accuracy")
        return found and found[0]

    def worst_by(self, measure: Measure) -> tuple[Spot, Interval] | None:
        """The attack on this defence that leaves the least mean accuracy, or whose backdoor succeeds most, and that."""
        known = [(spot, found) for spot in self.spots if (found := getattr(spot, measure)) is not None]
        return min(known, key=lambda each: each[1].mean * (-1 if measure == "backdoor" else 1), default=None)

    @cached_property
    def mean(self) -> float | None:
        """The accuracy that the worst attack leaves this defence; where attacks are missing, an upper bound of it."""
        return self.worst.accuracy.mean if self.worst and self.worst.accuracy else None

    @property
    def partial(self) -> bool:
        """Whether there are attacks on this defence in this condition of which nothing is known yet."""
        return len(self.known) < len(self.spots)

    @property
    def words(self) -> str:
        """The accuracy that the worst attack leaves, in words; with "≤" where attacks are missing."""
        return at_most(self.worst.accuracy if self.worst else None, self.partial)

    @property
    def lacking(self) -> str:
        """What of this field's attacks or cells is missing yet, in words; "" where all is there."""
        if self.partial:
            return f"{len(self.known)} of {len(self.spots)} attacks"
        counted, cells = (sum(len(getattr(spot, name)) for spot in self.spots) for name in ("counted", "cells"))
        return f"{counted} of {cells} cells" if counted < cells else ""
