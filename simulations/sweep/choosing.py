"""Settings that are chosen at every place of a grid: the value whose trials were best on records set aside.

A trial is a whole run of a place with one of the values and a seed of the choosing, its accuracy measured on training
records that are set aside (data.aside), which nobody trains on and no test has. The value with the highest mean over
those seeds is chosen, the first of equals; one of which a trial failed, or measured nothing, is not.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from math import isfinite
from pathlib import Path
from statistics import fmean

from simulations.sweep.directory import is_finished, place_of
from simulations.sweep.grid import Choices, Grid, Labels


def choices_made(out: Path, grid: Grid, *, ended: bool = False) -> Choices:
    """What is chosen at each place of a sweep, by the trials in its directory; nothing where one is still to come.

    `ended` says that none will: those that are not finished have failed.
    """
    if grid.choosing is None:
        return {}
    found: dict[Labels, dict[Labels, list[float | None]]] = {}
    for cell in grid.choosing.cells:
        accuracies = found.setdefault(cell.spot, {}).setdefault(cell.value, [])
        accuracies.append(_accuracy(place_of(out, cell)))
    ready = {spot: tried for spot, tried in found.items() if ended or not any(None in own for own in tried.values())}
    chosen = {spot: best_value(tried) for spot, tried in ready.items()}
    return {spot: value for spot, value in chosen.items() if value is not None}


def best_value(tried: Mapping[Labels, list[float | None]]) -> Labels | None:
    """The value of a sweep's choosing with the highest mean accuracy, the first of equals; None of no whole one.

    >>> best_value({("0.1",): [0.5, 0.7], ("0.2",): [0.6, 0.6], ("0.4",): [0.9, None]})
    ('0.1',)
    """
    whole = {value: found for value, found in tried.items() if None not in found}
    means = {value: fmean(each for each in found if each is not None) for value, found in whole.items()}
    return max(means, key=means.__getitem__, default=None)


def with_choices(grid: Grid, choices: Choices) -> Grid:
    """A sweep's grid with the cells alone that have the values chosen; without those of places where none is yet."""
    return replace(grid, cells=tuple(each for each in grid.cells if choices.get(each.spot, ()) == each.value))


def _accuracy(place: Path) -> float | None:
    """The accuracy that a trial ended with, by its directory; None where it is not finished, or measured none."""
    if not is_finished(place):
        return None
    accuracy = json.loads((place / "result.json").read_text(encoding="utf-8")).get("accuracy")
    return float(accuracy) if isinstance(accuracy, int | float) and isfinite(accuracy) else None
