"""What a sweep would take: a few cells, drawn by lot and run for a few rounds, stand for all."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from statistics import fmean, median
from time import perf_counter
from typing import Any

from clients.data.identity import in_words
from clients.training.prepared import net_of, pool_of
from fedpriv import records
from fedpriv._base.spelling import rounded_up
from fedpriv.randomness.streams import stream
from fedpriv.studies import promise as guarantee
from fedpriv.studies.study import Study
from server import rounds
from server.directory import made_on
from server.progress.words import duration_words
from simulations.runs.direct import Here
from simulations.sweep.grid import SEED, Grid

SAMPLE = 16  # cells that stand for all
ROUNDS = 3  # of each
ENOUGH = 30.0  # seconds after which no further cell is tried
START = 5.0  # seconds Ray and its workers take, measured on two cores


def sweep_forecast(grid: Grid, workers: int) -> dict[str, Any]:
    """What `fedpriv sweep --dry-run` finds of a resolved grid: cells, ε, and the time by trying a few."""
    lot = stream(0, "forecast").permutation(len(grid.cells))[:SAMPLE].tolist()
    _seconds(grid.cells[lot[0]].study)  # what a process loads and keeps is no cell's
    begun, found = perf_counter(), list[float]()
    for place in lot:
        found.append(_seconds(grid.cells[place].study))
        if perf_counter() - begun > ENOUGH:
            break
    studies = {repr(cell.study.data): cell.study for cell in grid.cells}.values()
    told = [(made.data, made.where) for made in map(made_on.data_here, studies)]
    data = {each["sha256"]: each | {"path": where} for each, where in told if each}
    seconds, epsilons, trials = fmean(found), set[float](), len(grid.choosing.cells) if grid.choosing else 0
    for study in (cell.study for cell in grid.cells):
        dimension = net_of(study, pool_of(study)).dimension
        epsilons.add(guarantee.epsilon_in_all(study, dimension).upper)
    return {
        "name": grid.name, "data": list(data.values()),
        "cells": grid.runs, "trials": trials, "skipped": grid.skipped, "seeds": grid.seeds,
        "axes": [{"path": axis.path, "values": [choice.label for choice in axis.choices]} for axis in grid.axes],
        "chosen": [{"path": axis.path, "values": [choice.label for choice in axis.choices]} for axis in grid.chosen],
        "epsilon": sorted(epsilons),
        "seconds_a_cell": seconds, "workers": workers,
        "seconds": START + seconds * (grid.runs + trials) / min(workers, grid.runs),
    }  # fmt: skip


def sweep_forecast_table(found: Mapping[str, Any]) -> str:
    """What `fedpriv sweep --dry-run` prints for people of what it found."""
    skipped = f", {found['skipped']:,} impossible combinations left out" if found["skipped"] else ""
    skipped += f", and {found['trials']:,} trials to choose by" if found["trials"] else ""
    axes = [*found["axes"], {"path": SEED, "values": list(map(str, found["seeds"]))}]
    each, workers = duration_words(found["seconds_a_cell"]), found["workers"]
    lines = [
        f"{found['name']}: {found['cells']:,} cells{skipped}",
        *(f"  {axis['path']} ({len(axis['values'])}): {'; '.join(axis['values'])}" for axis in axes),
        *(
            f"  {axis['path']}, chosen of {len(axis['values'])}: {'; '.join(axis['values'])}"
            for axis in found["chosen"]
        ),
        *(f"  {in_words(data, data['path'])}" for data in found["data"]),
        f"  ε (at most): {', '.join(dict.fromkeys(rounded_up(epsilon, 3) for epsilon in found['epsilon']))}",
        f"  expected time: about {duration_words(found['seconds'])} on {workers} workers, {each} a cell",
    ]
    return "\n".join(lines)


def _seconds(study: Study) -> float:
    """The seconds that a whole run of a cell's study takes, judged from a run of a few rounds."""
    short = replace(study, run=replace(study.run, rounds=min(study.run.rounds, ROUNDS)))
    with tempfile.TemporaryDirectory() as folder:
        begun = perf_counter()
        rounds.run_rounds(short, Path(folder) / "run", Here(), quiet=True)
        whole = perf_counter() - begun
        timings = records.read_timings(Path(folder) / "run" / "timings.jsonl")
    each = [float(line["seconds"]) for line in timings.values()]
    return whole - sum(each) + median(each) * study.run.rounds
