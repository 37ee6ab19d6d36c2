"""Lines that stand for the same thing in every figure of a sweep: the same colour, mark and letter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isfinite
from textwrap import fill

import numpy as np
from matplotlib.axes import Axes

from server.progress.words import LETTERS
from simulations.figures.curves import COLOURS
from simulations.figures.style import MUTED, draw_key, key_rows, label_ends, letters_across

MARKS = "os^DvPX*<>"  # nobody has to tell lines apart by their colours alone
MOST = len(MARKS)  # lines with a colour; the others are drawn thin and grey
WORST = 3  # of these are the worst defences, where not all can have a colour
LONGEST = 60  # letters of a name in the key
SHORT = 16  # letters of a name that stands beside its line; where one is longer, all lines have letters


@dataclass(frozen=True)
class Line:
    """Means along an axis, and half of the interval about each (nan where there is one seed)."""

    place: int  # whose line it is, by its place among the names
    x: Sequence[float]
    y: Sequence[float]  # mean accuracies
    half: Sequence[float]  # width of the interval over seeds at each x


@dataclass(frozen=True)
class Names:
    """What the lines stand for, and which of them are coloured: of more than ten the best and the worst."""

    names: tuple[str, ...]
    coloured: tuple[int, ...]  # places among the names

    @staticmethod
    def of(names: Sequence[str], best_first: Sequence[int]) -> Names:
        """The names of a sweep's lines, all coloured if few, else the best and worst; `best_first` are their places."""
        few = len(names) <= MOST
        chosen = range(len(names)) if few else {*best_first[: MOST - WORST], *best_first[-WORST:]}
        return Names(tuple(names), tuple(sorted(chosen)))

    @cached_property
    def lettered(self) -> bool:
        """Whether letters stand beside a sweep's lines in place of names, for want of room."""
        return any(len(self.names[place]) > SHORT for place in self.coloured)

    def colour(self, place: int) -> str:
        """The colour of a sweep's line, by the place of its name: the same in every figure."""
        return COLOURS[self.coloured.index(place) % len(COLOURS)] if place in self.coloured else MUTED

    def mark(self, place: int) -> str:
        """The shape of the points on a sweep's line, by the place of its name; "" where it is grey."""
        return MARKS[self.coloured.index(place)] if place in self.coloured else ""

    def tag(self, place: int) -> str:
        """What stands beside a sweep's line, its letter or its name; "" where it is grey."""
        if place not in self.coloured:
            return ""
        return LETTERS[self.coloured.index(place)] if self.lettered else self.names[place]

    def key(self, axes: Axes, places: Sequence[int]) -> None:
        """Write below a sweep's axes which letter is which line; nothing where lines bear their names."""
        shown = [place for place in self.coloured if place in places]
        words = [(f"{self.tag(place)}  {shorten(self.names[place])}", self.colour(place)) for place in shown]
        if self.lettered:
            draw_key(axes, words)

    def height(self, places: Sequence[int]) -> float:
        """How many inches of a sweep's figure the key of these lines takes."""
        return 0.17 * key_rows([self.names[place] for place in places if place in self.coloured]) * self.lettered


def shorten(name: str) -> str:
    """The name of a sweep's line, cut to what fits in the key below a figure."""
    return name if len(name) <= LONGEST else name[: LONGEST - 1] + "…"


def draw(axes: Axes, names: Names, lines: Sequence[Line], *, joined: bool = True, label: bool = True) -> None:
    """Draw a sweep's lines into axes, with their bands over seeds, grey ones behind, coloured ones named at the end."""
    for line in lines:
        colour, shown = names.colour(line.place), line.place in names.coloured
        dense = len(line.x) > 15
        later = names.coloured.index(line.place) >= len(COLOURS) if shown else False
        y, half = np.asarray(line.y, dtype=float), np.nan_to_num(np.asarray(line.half, dtype=float))
        axes.plot(
            line.x, y, color=colour, marker="" if dense else names.mark(line.place), ms=4.5, zorder=3 if shown else 1,
            lw=(1.8 if shown else 0.7) if joined else 0, alpha=1 if shown else 0.45, clip_on=False,
            ls=(0, (4, 1.5)) if later else "-",
        )  # fmt: skip
        if shown and half.any() and joined and len(line.x) > 1:
            axes.fill_between(line.x, y - half, y + half, color=colour, alpha=0.16, lw=0)
        elif shown and half.any():
            axes.errorbar(line.x, y, half, fmt="none", ecolor=colour, elinewidth=1, alpha=0.6)
    names.key(axes, [line.place for line in lines])  # first: it takes room from the lines
    if label:
        label_ends(axes, ends(names, lines))


def ends(names: Names, lines: Sequence[Line]) -> list[tuple[float, float, str, str]]:
    """(x, y, words, colour) at the end of each coloured line of a sweep, for the labels beside them."""
    found = [line for line in lines if line.place in names.coloured and isfinite(line.y[-1])]
    return [
        (line.x[-1], line.y[-1], f"{names.tag(line.place)} {line.y[-1]:.2f}", names.colour(line.place))
        for line in found
    ]


def accuracy_axis(axes: Axes, title: str, top: float) -> None:
    """Give a panel of a sweep its title and its upright axis, from 0 to a little above the best accuracy."""
    axes.set_title(fill(title, letters_across(62), max_lines=3, placeholder=" …"))
    axes.set_ylim(0, min(1.0, 1.05 * top) or 1.0)
