"""Figures of what accuracy costs in a sweep: ε and bytes, a panel a condition."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, isfinite, log

from matplotlib.ticker import NullLocator

from fedpriv._base.spelling import rounded_up
from simulations.figures.style import MUTED, Picture, house_style, label_ends, saved_figure, thousands_axis
from simulations.report.sweep._answer import SAME
from simulations.report.sweep._axes import number
from simulations.report.sweep._lines import Line, draw
from simulations.report.sweep._panels import alt, chosen, groups, lines_of, note, opened
from simulations.report.sweep.cells import Axis
from simulations.report.sweep.grid import Grid

BYTES = "bytes of one client in one round"


@house_style()
def epsilon(grid: Grid) -> tuple[list[Picture], int]:
    """A sweep's pictures of accuracy against certified ε, ∞ at the right, and how many panels there would be."""
    along = privacy_axes(grid)
    joined = len(along) == 1 and None not in map(number, along[0].values)
    found, made = groups(grid, along), list[Picture]()
    if not any(isfinite(spot.upper or inf) for group in found for spot in group.spots):
        return [], 0
    for at, group in enumerate(chosen(found), 1):
        lines = lines_of(group, lambda spot: spot.upper)
        values = sorted({x for line in lines for x in line.x if isfinite(x)})
        plain = any(x == inf for line in lines for x in line.x)
        if not values or (values[0] >= SAME * values[-1] and not plain):
            continue
        low, high = values[0], values[-1]
        wide = high > 8 * low
        beyond = high * max(1.6, (high / low) ** 0.25) if wide else high + 0.25 * max(high - low, high)
        lines = [Line(line.place, [min(x, beyond) for x in line.x], line.y, line.half) for line in lines]
        figure, axes = opened(grid, group, lines)
        axes.set_xlabel("ε, certified upper bound")
        if wide:
            axes.set_xscale("log")
            axes.xaxis.set_minor_locator(NullLocator())
        scale: Callable[[float], float] = log if wide else float
        kept = [high]  # from the largest down, values that lie far enough apart for each to have its number
        for x in reversed(values):
            if scale(kept[-1]) - scale(x) > (scale(high) - scale(low)) / 12:
                kept.append(x)
        ticks = [(x, rounded_up(x, 3)) for x in reversed(kept)] + [(beyond, "∞")] * plain
        axes.set_xticks(*zip(*ticks, strict=True))
        if plain:
            axes.axvline((high * beyond) ** 0.5 if wide else (high + beyond) / 2, color=MUTED, lw=0.7, ls=":")
        draw(axes, group.names, lines, joined=joined)
        said = note(grid, group) + " ε = ∞: no privacy." * plain
        made.append(saved_figure(f"epsilon-{at}", "", figure, alt("ε", group, lines), said))
    return made, len(found)


def privacy_axes(grid: Grid) -> list[Axis]:
    """The axis of privacy that lines of a sweep's ε pictures run along; all of them where none has numbers."""
    axes = grid.axes["privacy"]
    numbers = [axis for axis in axes if None not in map(number, axis.values)]
    targets = [axis for axis in numbers if axis.path == "privacy.epsilon"]
    return (targets or sorted(numbers, key=lambda axis: -len(axis.values)))[:1] or axes


@house_style()
def sent(grid: Grid) -> tuple[list[Picture], int]:
    """A sweep's pictures of accuracy against a client's bytes, if they differ, and how many panels there would be."""
    found = groups(grid, [axis for axis in grid.axes["privacy"] if axis.path.startswith("privacy.mechanism")])
    if len({spot.mean("client_bytes") for group in found for spot in group.spots}) < 2:
        return [], 0
    made = []
    for at, group in enumerate(chosen(found), 1):
        lines = lines_of(group, lambda spot: spot.mean("client_bytes"))
        points = {(x, y) for line in lines for x, y in zip(line.x, line.y, strict=True)}
        if not points:
            continue
        figure, axes = opened(grid, group, lines)
        axes.set_xlabel(BYTES)
        smallest, largest = (choice(x for x, _ in points) for choice in (min, max))
        if largest > 20 * smallest:
            axes.set_xscale("log")
        else:
            axes.set_xlim(0, 1.08 * largest)
            thousands_axis(axes.xaxis)
        draw(axes, group.names, lines, joined=False, label=False)
        unbeaten = [(x, y) for x, y in sorted(points) if not any(a <= x and b >= y for a, b in points - {(x, y)})]
        axes.plot(*zip(*unbeaten, strict=True), color=MUTED, lw=1, ls=":", drawstyle="steps-post", zorder=0)
        tops = [(each, max(range(len(each.y)), key=each.y.__getitem__)) for each in lines]
        ends = [(each.x[top], each.y[top], group.names.tag(each.place), group.names.colour(each.place))
                for each, top in tops if each.place in group.names.coloured]  # fmt: skip
        for column in {round(30 * x / largest) for x, *_ in ends}:  # only neighbours are moved apart
            label_ends(axes, [end for end in ends if round(30 * end[0] / largest) == column])
        said = note(grid, group) + " The dotted line: the most that so many bytes have bought."
        made.append(saved_figure(f"bytes-{at}", "", figure, alt(BYTES, group, lines), said))
    return made, len(found)
