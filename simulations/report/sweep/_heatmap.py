"""Heat-maps of what attacks leave, or a backdoor opens: a row a defence, a column a privacy and number of attackers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from textwrap import fill
from typing import NamedTuple

import matplotlib as mpl
from matplotlib.colors import Colormap, to_hex
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from simulations.figures.style import CARD, INK, MUTED, WIDTH, Drawn, Picture, figure_width, house_style, saved_figure
from simulations.report.sweep._spots import Field, Key, Measure
from simulations.report.sweep.grid import Grid, ordered_values

COLUMNS, FITTING = 8, 5  # side by side on a page, and on one of a paper
ROWS = 24  # in one picture
PICTURES = 8  # of one sweep
MAPS: dict[Measure, Colormap] = {  # even steps of lightness, the same to colour-blind eyes; light is good
    "accuracy": mpl.colormaps["cividis"], "backdoor": mpl.colormaps["cividis_r"],
}  # fmt: skip

Column = tuple[Key, Key]  # privacy and attackers


@dataclass(frozen=True)
class Scale:
    """Which colour an accuracy has, or a backdoor's success: the same in all maps of a sweep."""

    low: float  # the accuracy of the darkest colour
    high: float  # and of the lightest
    measure: Measure = "accuracy"

    @staticmethod
    def of(grid: Grid) -> Scale:
        """The colour scale of a sweep's heat-maps, from its smallest mean accuracy to its largest, in twentieths.

        Small differences look small.
        """
        means = [spot.accuracy.mean for spot in grid.spots if spot.accuracy] or [0.0, 1.0]
        low, high = int(20 * min(means)) / 20, max(-int(-20 * max(means) // 1) / 20, 0.05)  # where nothing was right
        return Scale(max(0.0, min(low, high - 0.3)), high)

    def colours(self, value: float) -> tuple[str, str]:
        """The colour of a heat-map's field for an accuracy, and that of the letters on it."""
        red, green, blue, _ = MAPS[self.measure]((value - self.low) / (self.high - self.low))
        light = 0.2126 * red**2.2 + 0.7152 * green**2.2 + 0.0722 * blue**2.2
        return to_hex((red, green, blue)), "#000000" if light > 0.18 else "#ffffff"


@dataclass(frozen=True, eq=False)
class HeatMap:
    """One heat-map: of each defence under every privacy and number of attackers."""

    words: str  # the setting that all of it shares
    columns: list[Column]
    rows: list[tuple[str, dict[Column, Field]]]  # the name of each, and its fields as far as there are any


def maps(grid: Grid, fields: Sequence[Field]) -> list[HeatMap]:
    """The heat-maps of some fields of a sweep, one a setting, split by columns where wider than a page.

    Of one defence, the settings are the rows.
    """
    by_setting = len(grid.defences) == 1 and len({field.condition.setting for field in fields}) > 1
    found: dict[str, dict[str, dict[Column, Field]]] = {}
    for field in fields:
        setting = grid.words("setting", field.condition.setting)
        title, row = ("", setting) if by_setting else (setting, grid.defence(field.defence))
        found.setdefault(title, {}).setdefault(row, {})[field.condition.privacy, field.condition.attackers] = field
    return [
        HeatMap(title, columns, list(rows.items()))
        for title, rows in found.items()
        for columns in _divided(ordered_values(column for row in rows.values() for column in row))
    ]


def _divided(columns: list[Column]) -> Iterator[list[Column]]:
    """A heat-map's columns in parts that fit on a page; those of one privacy stay together where they fit."""
    part: list[Column] = []
    most = COLUMNS if figure_width() == WIDTH else FITTING
    for _, each in groupby(columns, key=lambda column: column[0]):
        own = list(each)
        if part and len(part) + len(own) > most:
            yield part
            part = []
        part = part + own
        while len(part) > most:
            yield part[:most]
            part = part[most:]
    if part:
        yield part


class Said(NamedTuple):
    """What stands in a heat-map's field."""

    value: float  # by which it is coloured
    number: str
    within: str  # its ±, "" of a single seed
    attack: str  # the worst, where there are several
    lacking: str  # what is missing


def said(grid: Grid, field: Field | None, measure: Measure) -> Said | None:
    """What stands in a heat-map's field, by accuracy or by a backdoor's success; None where nothing is known."""
    if field is None or (worst := field.worst_by(measure)) is None:
        return None
    spot, found = worst
    bound = ("≥ " if measure == "backdoor" else "≤ ") * field.partial
    attack = grid.attack(spot) if len(field.spots) > 1 else ""
    within = "" if found.half is None else f"± {found.half:.2f}"
    attack = "" if attack == "no attackers" else attack
    return Said(found.mean, f"{bound}{found.mean:.2f}", within, attack, field.lacking)


@house_style()
def pictures(grid: Grid, scale: Scale) -> list[Picture]:
    """The heat-maps of a sweep under the worst attacks as PNG pictures, for a talk."""
    title = "backdoors" if scale.measure == "backdoor" else "accuracy"
    title += " under the worst attack" * (len(grid.attacks) > 1)
    parts: list[HeatMap] = []
    for heat in maps(grid, grid.fields):
        length = -(-len(heat.rows) // -(-len(heat.rows) // ROWS))  # parts of a map are of about the same length
        parts += [replace(heat, rows=heat.rows[at : at + length]) for at in range(0, len(heat.rows), length)]
    drawn = [_drawn(grid, part, scale, title) for part in parts[:PICTURES]]
    name = "backdoor-map" if scale.measure == "backdoor" else "heat-map"
    return [saved_figure(f"{name}-{at}", "", *each) for at, each in enumerate(drawn, 1)]


def _short(words: str, width: int, lines: int) -> str:
    """Words of a heat-map's picture broken into lines, the end left out where there is no room for it."""
    return fill(words, width, max_lines=lines, placeholder=" …")


def _drawn(grid: Grid, heat: HeatMap, scale: Scale, title: str) -> Drawn:
    """Draw one heat-map as a figure: coloured fields, privacy and attackers above, defences beside the rows."""
    across, down = len(heat.columns), len(heat.rows)
    figure = Figure(figsize=(1.9 + 1.0 * across, 1.1 + 0.5 * down), layout="constrained")
    axes = figure.subplots()
    for at, (_, row) in enumerate(heat.rows):
        for place, column in enumerate(heat.columns):
            own = said(grid, row.get(column), scale.measure)
            if own is None:
                axes.text(place, at, "–", ha="center", va="center", color=MUTED)
                continue
            back, ink = scale.colours(own.value)
            axes.add_patch(Rectangle((place - 0.48, at - 0.46), 0.96, 0.92, color=back, lw=0))
            small = "\n".join(filter(None, [own.within, _short(own.attack, 17, 2), own.lacking]))
            axes.text(place, at - 0.15 * bool(small), own.number, ha="center", va="center", color=ink, fontsize=10)
            axes.text(place, at + 0.21, small, ha="center", va="center", color=ink, fontsize=6, linespacing=1.05)
    heads = [[grid.words("privacy", privacy), grid.words("attackers", number)] for privacy, number in heat.columns]
    axes.set(xlim=(-0.5, across - 0.5), ylim=(down - 0.5, -0.5))
    axes.set_xticks(
        range(across), ["\n".join(_short(word, 15, 3) for word in head if word) for head in heads], color=INK
    )
    axes.set_yticks(range(down), [_short(name, 26, 3) for name, _ in heat.rows], color=INK)
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.grid(visible=False)
    figure.suptitle(fill(f"{title}: {heat.words}" if heat.words else title, 30 + 14 * across), x=0.01, ha="left",
                    fontsize=9.5, weight="bold", color=INK)  # fmt: skip
    figure.patch.set_facecolor(CARD)
    return figure, title, ""
