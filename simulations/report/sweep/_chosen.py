"""What was chosen at each place of a sweep and by which trials, for its page, its words and its tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from server.progress.words import ranges_words
from simulations.figures.intervals import Interval, interval_of, interval_words
from simulations.figures.tables import Table
from simulations.report.sweep._axes import ROLES, phrase
from simulations.report.sweep._spots import Spot
from simulations.report.sweep.grid import Grid

Value = tuple[str, ...]  # labels, one for each setting that is chosen


class Tried(NamedTuple):
    """A value that was tried at a spot of a sweep."""

    spot: Spot
    value: Value
    found: Interval | None  # accuracy on records set aside, over the seeds of the choosing; None where no trial is done
    chosen: bool


def values_tried(grid: Grid) -> Iterator[Tried]:
    """Every value that was tried at every spot of a sweep, in the order of the axes."""
    by_place: dict[Value, dict[Value, list[float]]] = {}
    for cell in grid.sweep.trials:
        own = by_place.setdefault(tuple(cell.place.values()), {}).setdefault(tuple(cell.chosen.values()), [])
        own += [cell.accuracy] if cell.accuracy is not None else []
    for spot in grid.spots:
        chosen = next((tuple(cell.chosen.values()) for cell in spot.cells if cell.chosen), None)
        for value, accuracies in by_place.get(tuple(spot.cells[0].place.values()), {}).items():
            yield Tried(spot, value, interval_of(accuracies), value == chosen)


def choosing_words(grid: Grid) -> list[str]:
    """The sentence of a sweep's caveats on what was chosen, by what and at which price; none where nothing was."""
    sweep = grid.sweep
    if not sweep.chosen:
        return []
    names = "; ".join(f"{axis.path} (of {', '.join(axis.values)})" for axis in sweep.chosen)
    aside = max((cell.ran.test_examples for cell in sweep.trials if cell.ran), default=0)
    seeds = ranges_words(sorted({cell.seed for cell in sweep.trials}))
    return [
        f"Chosen at each place, under its own attack: {names}, by mean accuracy on {aside or 'the'} training records "
        f"set aside, which nobody trains on, over seeds of their own ({seeds}); the records of the test had no part in "
        f"it. {len(sweep.trials):,} trials were for that, so that {len(sweep.trained):,} cells have been trained: each "
        "trial spends its own ε on the same clients' data, which no cell's ε counts."
    ]


def choosing(grid: Grid) -> Table:
    """The table choosing.csv of a sweep: every value tried at every place, and its accuracy on records set aside."""
    paths, chosen = ([axis.path for axis in axes] for axes in (grid.sweep.axes, grid.sweep.chosen))
    rows = []
    for each in values_tried(grid):
        place = [each.spot.cells[0].place[path] for path in paths]
        numbers = (each.found.mean, each.found.half, each.found.seeds) if each.found else (None, None, 0)
        rows.append([*place, *each.value, *numbers, "yes" * each.chosen])
    return [*paths, *chosen, "accuracy_aside", "half_width", "seeds", "chosen"], rows


def choosing_in_words(grid: Grid) -> Table:
    """The table of every value tried at every place of a sweep for reading, on its page."""
    roles = [each for each in ROLES if grid.axes[each]]
    rows = []
    for each in values_tried(grid):
        value = ", ".join(phrase(axis.path, label) for axis, label in zip(grid.sweep.chosen, each.value, strict=True))
        place = [grid.words(role, each.spot.key(role)) for role in roles]
        rows.append([value, *place, interval_words(each.found), "chosen" * each.chosen])
    return ["tried", *roles, "accuracy, records set aside", ""], rows
