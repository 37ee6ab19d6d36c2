"""Panels of a figure of a sweep: a line for each defence, a panel for each condition, and the words below it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import nan
from statistics import fmean

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from server.progress.words import share_words
from simulations.figures.intervals import FEWEST
from simulations.figures.style import new_figure
from simulations.report.sweep._axes import Role, role
from simulations.report.sweep._lines import MOST as COLOURED
from simulations.report.sweep._lines import WORST, Line, Names, accuracy_axis
from simulations.report.sweep._spots import Key, Spot
from simulations.report.sweep.cells import Axis
from simulations.report.sweep.grid import Grid

Measure = Callable[[Spot], float | None]  # where a spot stands on the axis below; None where it does not

SUBJECTS: tuple[Role, ...] = ("defence", "attack", "privacy", "attackers", "setting")  # what lines are, if several
MOST = 6  # panels of one kind


@dataclass(frozen=True, eq=False)
class Group:
    """One panel of a figure: a line for each subject, all in one condition."""

    under: str  # which attack, as its title has it; "" where that is said elsewhere
    words: str  # what else is the same for all of it
    names: Names  # of the lines, in every panel the same
    by_line: dict[int, list[Spot]]  # by the place of the line's name
    worst: bool  # whether every spot is the worst attack's

    @property
    def title(self) -> str:
        """What the figure of this panel shows, as its heading: accuracy, under which attack, in which condition."""
        return f"accuracy{self.under}{': ' if self.words else ''}{self.words}"

    @property
    def spots(self) -> list[Spot]:
        """The points of all lines of this panel, a spot of the sweep's grid each."""
        return [spot for spots in self.by_line.values() for spot in spots]

    @property
    def contrast(self) -> float:
        """How far the panel's lines lie apart, the best mean accuracy less the worst: by it panels are chosen."""
        means = [mean_of(spots) for spots in self.by_line.values()]
        return max(means) - min(means)


def groups(grid: Grid, along: Sequence[Axis], attack: Key | None = None) -> list[Group]:
    """The panels of a sweep's figure whose lines run along these axes, under the worst attack or under one.

    Lines are the defences; where there is but one, the attacks, and so on.
    """
    fixed = {role(axis.path) for axis in along} | ({"attack"} if attack is not None else set())
    several = [of for of in SUBJECTS if of not in fixed and len({spot.key(of) for spot in grid.spots}) > 1]
    subject = several[0] if several else "defence"
    every = attack is None and subject != "attack"
    spots = [field.worst for field in grid.fields if field.worst] if every else [
        spot for spot in grid.spots if spot.accuracy and attack in (None, spot.attack)
    ]  # fmt: skip
    if not spots:
        return []
    keys = sorted({spot.key(subject) for spot in grid.spots})  # of all, so that a name is the same in every figure
    called = [grid.defence(key) if subject == "defence" else grid.words(subject, key) for key in keys]
    means = [mean_of([spot for spot in spots if spot.key(subject) == key]) for key in keys]
    ranked = min(spot.accuracy.seeds for spot in spots if spot.accuracy) >= FEWEST
    names = Names.of(called, best_first=sorted(range(len(keys)), key=lambda place: -means[place] * ranked))
    apart = [axis for each in ("setting", "privacy", "attackers") if each != subject for axis in grid.axes[each]]
    found: dict[tuple[str, ...], dict[int, list[Spot]]] = {}
    for spot in spots:
        panel = tuple(grid.called[axis.path][spot.cells[0].place[axis.path]] for axis in apart if axis not in along)
        found.setdefault(panel, {}).setdefault(keys.index(spot.key(subject)), []).append(spot)
    under = " under the worst attack" if every and len(grid.attacks) > 1 else ""
    if attack is not None:
        under = f" under {grid.words('attack', attack)}"
    return [Group(under, ", ".join(panel), names, by_line, every) for panel, by_line in found.items()]


def mean_of(spots: Sequence[Spot]) -> float:
    """The mean accuracy of some spots of a sweep: how high a line lies."""
    return fmean([spot.accuracy.mean for spot in spots if spot.accuracy] or [0.0])


def chosen(found: Sequence[Group]) -> list[Group]:
    """The few panels of a figure of a sweep that are drawn: those whose lines lie farthest apart, in order."""
    kept = sorted(sorted(range(len(found)), key=lambda at: -found[at].contrast)[:MOST])
    return [found[at] for at in kept]


def opened(grid: Grid, group: Group, lines: Sequence[Line]) -> tuple[Figure, Axes]:
    """An empty figure for one panel of a sweep: title, axis of accuracy, room for the key of its lines."""
    figure, (axes,) = new_figure(3.0 + group.names.height([line.place for line in lines]))
    accuracy_axis(axes, group.title, grid.top)
    return figure, axes


def lines_of(group: Group, measure: Measure) -> list[Line]:
    """A panel's spots as lines to draw, one for each defence: x by `measure`, mean accuracy, half of its interval."""
    lines = []
    for place, spots in group.by_line.items():
        points = sorted(
            (x, spot.accuracy.mean, nan if spot.accuracy.half is None else spot.accuracy.half)
            for spot in spots
            if spot.accuracy and (x := measure(spot)) is not None
        )
        if points:
            lines.append(Line(place, *map(list, zip(*points, strict=True))))
    return lines


def alt(label: str, group: Group, lines: Sequence[Line]) -> str:
    """What a figure of a sweep shows, in words for who cannot see it: where each line ends."""
    ends = "; ".join(f"{group.names.names[line.place]} {share_words(line.y[-1])}" for line in lines[:12])
    return f"{group.title}, against {label}; at the end of each line: {ends}."


def note(grid: Grid, group: Group) -> str:
    """The words below a figure of a sweep: under which attacks, over how many seeds, and what grey lines are."""
    said = []
    if len(grid.attacks) > 1 and group.worst:
        worst = dict.fromkeys(grid.attack(spot) for spots in group.by_line.values() for spot in spots)
        met = [name for name in worst if name != "no attackers"]
        if met:
            said.append(f"Each point under the attack worst for it: {', '.join(met[:6])}{' …' * (len(met) > 6)}.")
    seeds = [spot.accuracy.seeds for spot in group.spots if spot.accuracy]
    if max(seeds, default=0) > 1:
        low, high = min(seeds), max(seeds)
        said.append(f"Bands: 95% intervals over {high if low == high else f'{low} to {high}'} seeds, by Student's t.")
    grey = len(group.names.names) - len(group.names.coloured)
    if grey:
        highest, lowest = ("highest", "lowest") if min(seeds) >= FEWEST else ("first", "last")
        kept = COLOURED - WORST
        said.append(f"In colour the {kept} {highest} and the {WORST} {lowest} by mean; {grey} more in grey.")
    return " ".join(said)
