"""The grid of a sweep by what its axes mean, and what its places are called."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from simulations.report.sweep._axes import ROLES, Role, phrase, role
from simulations.report.sweep._spots import Condition, Field, Key, Spot
from simulations.report.sweep.cells import Cell, Sweep

Place = TypeVar("Place", bound=tuple[Any, ...])


class Grid:
    """A sweep's cells as spots and fields, in the order of its axes."""

    def __init__(self, sweep: Sweep) -> None:
        """Sort the cells of a sweep into spots and fields, by the roles of its axes."""
        self.sweep = sweep
        self.axes = {each: [axis for axis in sweep.axes if role(axis.path) == each] for each in ROLES}
        self.called: dict[str, dict[str, str]] = {}  # by axis, the words for each value
        for axis in sweep.axes:
            words = {value: phrase(axis.path, value) for value in axis.values}
            distinct = len(set(words.values())) == len(words)
            self.called[axis.path] = words if distinct else {value: value for value in axis.values}
        self._place = {axis.path: {value: at for at, value in enumerate(axis.values)} for axis in sweep.axes}
        found: dict[tuple[Key, ...], list[Cell]] = {}
        for cell in sweep.cells:
            found.setdefault(tuple(self.key(each, cell) for each in ROLES), []).append(cell)
        self.spots = [
            Spot(defence, attack, Condition(setting, privacy, attackers), tuple(cells))
            for (defence, attack, privacy, attackers, setting), cells in sorted(found.items(), key=lambda item: item[0])
        ]
        self.fields = self.fields_of(self.spots)
        self.by_place = {(field.defence, field.condition): field for field in self.fields}
        self.defences = ordered_values(spot.defence for spot in self.spots)
        self.attacks = ordered_values(spot.attack for spot in self.spots)
        self.conditions = ordered_values(spot.condition for spot in self.spots)
        self.backdoors = any(spot.backdoor for spot in self.spots)  # whether any was tried
        known = [spot.accuracy for spot in self.spots if spot.accuracy]
        self.top = max((found.mean + (found.half or 0.0) for found in known), default=1.0)

    def key(self, of: Role, cell: Cell) -> Key:
        """Which values a cell of the sweep has on the axes of one role, by their places."""
        return tuple(self._place[axis.path][cell.place[axis.path]] for axis in self.axes[of])

    def fields_of(self, spots: Iterable[Spot]) -> list[Field]:
        """The fields that some spots of the sweep make up: of a defence in a condition, all attacks."""
        found: dict[tuple[Key, Condition], list[Spot]] = {}
        for spot in spots:
            found.setdefault((spot.defence, spot.condition), []).append(spot)
        return [Field(*place, tuple(each)) for place, each in found.items()]

    def under(self, attack: Key) -> list[Field]:
        """The fields of the sweep as they would be, were this the only attack."""
        return self.fields_of(spot for spot in self.spots if spot.attack == attack)

    def words(self, of: Role, key: Key) -> str:
        """The values of one role's axes at a key, as the sweep's report calls them; "" where it has no axis."""
        return ", ".join(self.called[axis.path][axis.values[at]] for axis, at in zip(self.axes[of], key, strict=True))

    def where(self, condition: Condition) -> str:
        """A condition (setting, privacy, attackers) in words for the sweep's report; "" where there is only one."""
        return _joined(self.words("setting", condition.setting), self.words("privacy", condition.privacy),
                       self.words("attackers", condition.attackers))  # fmt: skip

    def cell(self, cell: Cell) -> str:
        """Where a cell of the sweep stands on all axes, and its seed, in words for its report."""
        words = (self.words(each, self.key(each, cell)) for each in ROLES)
        return _joined(*words, f"seed {cell.seed}")

    def defence(self, key: Key) -> str:
        """A defence in words for the sweep's report: what its axes say, else the rule that all cells have."""
        return self.words("defence", key) or _only(run.aggregation for run in self.sweep.ran) or "all cells"

    def attack(self, spot: Spot) -> str:
        """A spot's attack in words for the sweep's report; where nobody is Byzantine, "no attackers"."""
        if spot.counted and not spot.attacked:
            return "no attackers"
        return self.words("attack", spot.attack) or _only(c.ran.attack for c in spot.cells if c.ran) or "the attack"


def ordered_values(keys: Iterable[Place]) -> list[Place]:
    """A sweep's keys or conditions, each once, in the order of its axes."""
    return sorted(set(keys))


def _joined(*words: str) -> str:
    """Words that are not empty, with commas between them: a place of a sweep."""
    return ", ".join(filter(None, words))


def _only(names: Iterable[str]) -> str:
    """The one name that all of these are, such as the rule of a sweep's runs; "" of none or several."""
    found: Iterator[str] = iter(dict.fromkeys(names))
    first = next(found, "")
    return first if next(found, None) is None else ""
