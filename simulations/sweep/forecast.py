"""What a sweep would take: a few cells, drawn by lot and run for a few rounds, stand for all."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from statistics import fmean, median
from time import perf_counter
from typing import Any

from clients.training.prepared import net_of, pool_of
from fedpriv import records
from fedpriv.randomness.streams import stream
from fedpriv.studies import promise as guarantee
from fedpriv.studies.study import Study
from server import rounds
from server.directory import made_on
from simulations.runs.direct import Here
from simulations.sweep.grid import Grid

SAMPLE, ROUNDS, ENOUGH = 16, 3, 30.0  # cells, rounds of each, seconds
START = 5.0  # seconds Ray and its workers take, measured on two cores


def forecast(grid: Grid, workers: int) -> dict[str, Any]:
    """How many cells, which ε, and about how long, of a grid whose every study is resolved."""
    seconds = _seconds_a_cell(grid)
    return {
        "name": grid.name, "data": _data(grid), "cells": len(grid.cells), "skipped": grid.skipped, "seeds": grid.seeds,
        "axes": [{"path": axis.path, "values": [choice.label for choice in axis.choices]} for axis in grid.axes],
        "epsilon": sorted({_epsilon(cell.study) for cell in grid.cells}),
        "seconds_a_cell": seconds, "workers": workers,
        "seconds": START + seconds * len(grid.cells) / min(workers, len(grid.cells)),
    }  # fmt: skip


def _data(grid: Grid) -> list[dict[str, Any]]:
    """Every data set that some cell is made on, once."""
    found = {repr(cell.study.data): cell.study for cell in grid.cells}
    made = [made_on.here(study) for study in found.values()]
    return list({each.data["sha256"]: each.data | {"path": each.where} for each in made if each.data}.values())


def _epsilon(study: Study) -> float:
    """What the study promises, at most."""
    dimension = net_of(study, pool_of(study)).dimension
    return guarantee.epsilon(study, dimension, guarantee.releases_of_worst(study)).upper


def _seconds_a_cell(grid: Grid) -> float:
    """The mean over cells drawn by lot. The first runs twice: what a process loads and keeps is no cell's."""
    lot = stream(0, "forecast").permutation(len(grid.cells))[:SAMPLE].tolist()
    _seconds(grid.cells[lot[0]].study)
    begun, found = perf_counter(), list[float]()
    for place in lot:
        found.append(_seconds(grid.cells[place].study))
        if perf_counter() - begun > ENOUGH:
            break
    return fmean(found)


def _seconds(study: Study) -> float:
    """Of a whole run, from one of a few rounds."""
    short = replace(study, run=replace(study.run, rounds=min(study.run.rounds, ROUNDS)))
    with tempfile.TemporaryDirectory() as folder:
        begun = perf_counter()
        rounds.run(short, Path(folder) / "run", Here(), quiet=True)
        whole = perf_counter() - begun
        timings = records.read_timings(Path(folder) / "run" / "timings.jsonl")
    each = [float(line["seconds"]) for line in timings.values()]
    return whole - sum(each) + median(each) * study.run.rounds
