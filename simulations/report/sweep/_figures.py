"""Figures of what a sweep's defences keep: accuracy by round and against the number of attackers, panel by panel."""

from __future__ import annotations

from math import nan

from matplotlib.ticker import FixedLocator, MaxNLocator, NullLocator

from simulations.figures.style import Picture, house_style, over_rounds, saved_figure
from simulations.report.sweep._axes import ATTACKERS, number
from simulations.report.sweep._lines import Line, draw
from simulations.report.sweep._panels import alt, chosen, groups, lines_of, note, opened
from simulations.report.sweep._spots import Key
from simulations.report.sweep.grid import Grid

WIDE = 20  # numbers of attackers so far apart stand as far from each other as their logarithms


@house_style()
def rounds(grid: Grid) -> tuple[list[Picture], int]:
    """A sweep's pictures of accuracy by round, a line a defence, and how many panels there would be."""
    panels, made = groups(grid, []), list[Picture]()
    for at, group in enumerate(chosen(panels), 1):
        lines = [
            Line(place, [each for each, _ in curve], [found.mean for _, found in curve],
                 [nan if found.half is None else found.half for _, found in curve])
            for place, (spot, *_) in group.by_line.items() if (curve := spot.curve)
        ]  # fmt: skip
        if lines:
            figure, axes = opened(grid, group, lines)
            over_rounds(axes, sorted({int(x) for line in lines for x in line.x}))
            draw(axes, group.names, lines)
            made.append(saved_figure(f"rounds-{at}", "", figure, alt("rounds", group, lines), note(grid, group)))
    return made, len(panels)


@house_style()
def attackers(grid: Grid, attack: Key | None = None, name: str = "attackers") -> tuple[list[Picture], int]:
    """A sweep's pictures of accuracy by the number of attackers, under the worst or one attack; how many panels."""
    ranges = grid.axes["attackers"]
    found, made = groups(grid, ranges, attack) if ranges else [], list[Picture]()
    shares = any(not value.isdigit() for axis in ranges for value in axis.values)
    clients = {run.clients for run in grid.sweep.ran}
    of = f"{min(clients):,} clients" if len(clients) == 1 else "clients"
    label = f"attackers, % of {of}" if shares else f"attackers, of {of}"
    for at, group in enumerate(chosen(found), 1):
        counts = {spot: spot.mean("byzantine") for spot in group.spots}
        for spot, count in counts.items():  # shares as the study has them, which rounding would blur
            asked, all_clients = number(spot.cells[0].place.get(ATTACKERS, "")), spot.mean("clients")
            if shares and count is not None and all_clients:
                counts[spot] = 100 * (asked if asked is not None and 0 <= asked < 1 else count / all_clients)
        lines = lines_of(group, counts.get)
        places = sorted({x for line in lines for x in line.x})
        if len(places) < 2:
            continue
        figure, axes = opened(grid, group, lines)
        axes.set_xlabel(label)
        if places[-1] > WIDE * (least := min(x for x in places if x > 0)):
            axes.set_xscale("symlog", linthresh=least)
            axes.xaxis.set_minor_locator(NullLocator())
            axes.xaxis.set_major_formatter("{x:g}")
        axes.xaxis.set_major_locator(FixedLocator(places) if len(places) <= 7 else MaxNLocator(7, integer=not shares))
        axes.set_xlim(0, 1.02 * places[-1])
        draw(axes, group.names, lines)
        made.append(saved_figure(f"{name}-{at}", "", figure, alt(label, group, lines), note(grid, group)))
    return made, len(found)
