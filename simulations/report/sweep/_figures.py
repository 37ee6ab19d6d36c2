"""Figures of what a sweep's defences keep: accuracy by round and against the number of attackers, panel by panel."""

from __future__ import annotations

from math import nan

from matplotlib.ticker import FixedLocator, MaxNLocator, NullLocator

from simulations.figures.style import Drawn, Picture, new, over_rounds
from simulations.report.sweep._axes import ATTACKERS, number
from simulations.report.sweep._lines import Line, accuracy_axis, draw
from simulations.report.sweep._panels import Group, Measure, alt, groups, lines_of, note, pictures
from simulations.report.sweep._spots import Key, Spot
from simulations.report.sweep.grid import Grid

WIDE = 20  # numbers of attackers so far apart stand as far from each other as their logarithms


def rounds(grid: Grid) -> tuple[list[Picture], int]:
    """Accuracy by round, and how many panels there would be."""
    found = groups(grid, [])
    return pictures("rounds", found, lambda group: _by_round(grid, group))


def attackers(grid: Grid, attack: Key | None = None, name: str = "attackers") -> tuple[list[Picture], int]:
    """Accuracy against the number of attackers, under the worst attack or under one."""
    axes = grid.axes["attackers"]
    found = groups(grid, axes, attack) if axes else []
    labels = [value for axis in axes for value in axis.values]
    shares = any(not value.isdigit() for value in labels)
    clients = {run.clients for run in grid.sweep.ran}
    of = f"{min(clients):,} clients" if len(clients) == 1 else "clients"
    words = f"attackers, % of {of}" if shares else f"attackers, of {of}"
    return pictures(name, found, lambda group: _against(grid, group, lambda spot: _attackers(spot, shares), words))


def _attackers(spot: Spot, shares: bool) -> float | None:
    """How many are Byzantine: as the study has it where it gives shares, which rounding would blur."""
    asked = number(spot.cells[0].place.get(ATTACKERS, ""))
    count, clients = spot.mean("byzantine"), spot.mean("clients")
    if not shares or count is None or not clients:
        return count
    return 100 * (asked if asked is not None and 0 <= asked < 1 else count / clients)


def _by_round(grid: Grid, group: Group) -> Drawn | None:
    curves = [(place, spots[0].curve) for place, spots in group.by_line.items()]
    lines = [
        Line(place, [number for number, _ in curve], [found.mean for _, found in curve],
             [nan if found.deviation is None else found.deviation for _, found in curve])
        for place, curve in curves if curve
    ]  # fmt: skip
    if not lines:
        return None
    figure, (axes,) = new(3.0 + group.names.height([line.place for line in lines]))
    accuracy_axis(axes, group.title, grid.top)
    over_rounds(axes, sorted({number for _, curve in curves for number, _ in curve}))
    draw(axes, group.names, lines)
    return figure, alt("rounds", group, lines), note(grid, group)


def _against(grid: Grid, group: Group, measure: Measure, label: str) -> Drawn | None:
    lines = lines_of(group, measure)
    if len({x for line in lines for x in line.x}) < 2:
        return None
    figure, (axes,) = new(3.0 + group.names.height([line.place for line in lines]))
    accuracy_axis(axes, group.title, grid.top)
    axes.set_xlabel(label)
    found = sorted({x for line in lines for x in line.x})
    if found[-1] > WIDE * (least := min(x for x in found if x > 0)):
        axes.set_xscale("symlog", linthresh=least)
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_major_locator(FixedLocator(found) if len(found) <= 7 else MaxNLocator(7, integer="%" not in label))
    axes.set_xlim(0, 1.02 * found[-1])
    draw(axes, group.names, lines)
    return figure, alt(label, group, lines), note(grid, group)
