"""Figures of what accuracy costs in a sweep: ε and bytes, a panel a condition."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf, isfinite, log

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullLocator

from server.progress.words import up
from simulations.figures.style import MUTED, Drawn, Picture, label_ends, new
from simulations.report.sweep._answer import SAME
from simulations.report.sweep._axes import number
from simulations.report.sweep._lines import Line, Names, accuracy_axis, draw
from simulations.report.sweep._panels import Group, alt, groups, lines_of, note, pictures
from simulations.report.sweep.cells import Axis
from simulations.report.sweep.grid import Grid


def epsilon(grid: Grid) -> tuple[list[Picture], int]:
    """Accuracy against what is certified."""
    along = privacy_axes(grid)
    joined = len(along) == 1 and None not in map(number, along[0].values)
    found = groups(grid, along)
    if not any(isfinite(spot.upper or inf) for group in found for spot in group.spots):
        return [], 0
    return pictures("epsilon", found, lambda group: _against_epsilon(grid, group, joined))


def privacy_axes(grid: Grid) -> list[Axis]:
    """The one axis of privacy that lines run along; where none has numbers, points of all of them are in one figure."""
    axes = grid.axes["privacy"]
    numbers = [axis for axis in axes if None not in map(number, axis.values)]
    targets = [axis for axis in numbers if axis.path == "privacy.epsilon"]
    return (targets or sorted(numbers, key=lambda axis: -len(axis.values)))[:1] or axes


def sent(grid: Grid) -> tuple[list[Picture], int]:
    """Accuracy against bytes, where they differ at all."""
    found = groups(grid, [axis for axis in grid.axes["privacy"] if axis.path.startswith("privacy.mechanism")])
    if len({spot.mean("client_bytes") for group in found for spot in group.spots}) < 2:
        return [], 0
    return pictures("bytes", found, lambda group: _against_bytes(grid, group))


def _against_epsilon(grid: Grid, group: Group, joined: bool) -> Drawn | None:
    lines = lines_of(group, lambda spot: spot.upper)
    found = sorted({x for line in lines for x in line.x if isfinite(x)})
    plain = any(x == inf for line in lines for x in line.x)
    if not found or (found[0] >= SAME * found[-1] and not plain):
        return None
    low, high = found[0], found[-1]
    wide = high > 8 * low
    beyond = high * max(1.6, (high / low) ** 0.25) if wide else high + 0.25 * max(high - low, high)
    lines = [Line(line.place, [min(x, beyond) for x in line.x], line.y, line.deviation) for line in lines]
    figure, (axes,) = new(3.0 + group.names.height([line.place for line in lines]))
    accuracy_axis(axes, group.title, grid.top)
    axes.set_xlabel("ε, certified upper bound")
    _epsilon_ticks(axes, found, beyond if plain else None, wide)
    draw(axes, group.names, lines, joined=joined)
    plainly = " ε = ∞: no privacy." * plain
    return figure, alt("ε", group, lines), note(grid, group) + plainly


def _epsilon_ticks(axes: Axes, found: Sequence[float], beyond: float | None, wide: bool) -> None:
    """The values themselves where they are few; infinity at the right, beyond a gap."""
    if wide:
        axes.set_xscale("log")
        axes.xaxis.set_minor_locator(NullLocator())
    kept = _apart(found, log if wide else float)
    axes.set_xticks([*kept, *([] if beyond is None else [beyond])])
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: "∞" if x == beyond else up(x, 3)))
    if beyond is not None:
        axes.axvline((kept[-1] * beyond) ** 0.5 if wide else (kept[-1] + beyond) / 2, color=MUTED, lw=0.7, ls=":")


def _apart(values: Sequence[float], scale: Callable[[float], float]) -> list[float]:
    """Those values, from the largest down, that lie far enough apart for each to have its number.

    >>> _apart([1.0, 7.9, 8.0], float)
    [1.0, 8.0]
    """
    whole = scale(values[-1]) - scale(values[0])
    kept = [values[-1]]
    for value in reversed(values):
        if scale(kept[-1]) - scale(value) > whole / 12:
            kept.append(value)
    return kept[::-1]


def _against_bytes(grid: Grid, group: Group) -> Drawn | None:
    lines = lines_of(group, lambda spot: spot.mean("client_bytes"))
    if not lines:
        return None
    largest = max(x for line in lines for x in line.x)
    figure, (axes,) = new(3.0 + group.names.height([line.place for line in lines]))
    accuracy_axis(axes, group.title, grid.top)
    axes.set_xlabel("bytes of one client in one round")
    if largest > 20 * min(x for line in lines for x in line.x):
        axes.set_xscale("log")
    else:
        axes.set_xlim(0, 1.08 * largest)
        axes.xaxis.set_major_locator(MaxNLocator(5))
        axes.xaxis.set_major_formatter("{x:,.0f}")
    draw(axes, group.names, lines, joined=False, label=False)
    frontier = _frontier([(x, y) for line in lines for x, y in zip(line.x, line.y, strict=True)])
    axes.plot(*zip(*frontier, strict=True), color=MUTED, lw=1, ls=":", drawstyle="steps-post", zorder=0)
    bests = _bests(group.names, lines)
    for column in {round(30 * x / largest) for x, *_ in bests}:  # only neighbours are moved apart
        label_ends(axes, [best for best in bests if round(30 * best[0] / largest) == column])
    said = note(grid, group) + " The dotted line: the most that so many bytes have bought."
    return figure, alt("bytes of one client in one round", group, lines), said


def _frontier(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """The points that nothing beats with fewer bytes.

    >>> _frontier([(10, 0.5), (20, 0.4), (30, 0.8)])
    [(10, 0.5), (30, 0.8)]
    """
    kept: list[tuple[float, float]] = []
    for x, y in sorted(points, key=lambda point: (point[0], -point[1])):
        if not kept or y > kept[-1][1]:
            kept.append((x, y))
    return kept


def _bests(names: Names, lines: Sequence[Line]) -> list[tuple[float, float, str, str]]:
    """A name beside the best point of each coloured line."""
    bests = [(line, max(range(len(line.y)), key=line.y.__getitem__)) for line in lines if line.place in names.coloured]
    return [(line.x[at], line.y[at], names.tag(line.place), names.colour(line.place)) for line, at in bests]
