"""A grid of studies run, or gone on with, cell by cell: what `fedpriv sweep` and `fp.sweep` do."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing, redirect_stdout
from io import StringIO
from itertools import count
from pathlib import Path
from typing import Any

from fedpriv._base.own_modules import look_for_modules
from fedpriv.errors import FedprivError
from fedpriv.studies.file import Changes
from fedpriv.studies.study import Study
from server.progress.live_line import LiveLine
from simulations.report.sweep.cells import Sweep, read_sweep
from simulations.runs.directory import next_free
from simulations.sweep.choosing import choices_made, with_choices
from simulations.sweep.crew import Crew
from simulations.sweep.directory import (
    check_data,
    check_sweep_directory,
    is_complete,
    is_finished,
    opened_sweep,
    place_of,
    write_index,
)
from simulations.sweep.grid import Cell, Grid, grid_of
from simulations.sweep.jobs import cell_jobs
from simulations.sweep.progress import SweepProgress
from simulations.sweep.stop import Stop

File = str | os.PathLike[str]


def sweep(
    study: Study | File | Mapping[str, Any],
    grid: Mapping[str, Sequence[Any]] | None = None,
    directory: File | None = None,
    *,
    overrides: Changes = (),
    workers: int | None = None,
    ray: str | None = None,
    quiet: bool = False,
) -> Sweep:
    """Run every cell of a grid of studies, side by side; what became of each (fp.sweep).

    `study` is a file, the name of one that ships, TOML text, a dict or a `Study`; `grid` the values that its settings
    take, {"run.seed": [1, 2], "attack.factor": [1.0, 4.0]}, or what its [sweep] table says where none is given.
    `overrides` change all cells, as in `run`, or with "sweep.PATH=[…]" that table. `directory` may hold the same sweep,
    of which only what is missing is run; where none is given it is runs/NAME, or the next number free. `workers` cells
    run at a time, one a core unless said, on the cluster at the address `ray` or on a Ray that is started here. `quiet`
    shows no progress. `those("failed")` are cells that did.

    Cells run in other processes: a class of one's own that the study names must be in a file.

    >>> import fedpriv as fp, tempfile
    >>> few = {"clients.count": 60, "run.rounds": 1}
    >>> with tempfile.TemporaryDirectory() as place:
    ...     fp.sweep("digits", {"run.seed": [1]}, f"{place}/few", overrides=few, workers=1, quiet=True).done[0].seed
    1
    """
    if not isinstance(study, Study | Mapping | str | os.PathLike):
        raise FedprivError(f"a study is a file, a name, TOML text, a dict or a Study, got {study!r}")
    if not isinstance(study, Study | Mapping):
        study = os.fspath(study)
        look_for_modules(Path() if "\n" in study else Path(study).parent)
    if not (grid is None or isinstance(grid, Mapping)):
        raise FedprivError(f"a grid is a dict of lists by path, got {grid!r}; a directory is named: directory=…")
    cells, out = grid_of(study, overrides, grid), None if directory is None else Path(directory)
    if out is not None:
        check_sweep_directory(out, cells)
    return read_sweep(swept_grid(cells, out, workers=workers, ray=ray, quiet=quiet)["directory"])


def swept_grid(grid: Grid, out: Path | None, *, workers: int | None, ray: str | None, quiet: bool) -> dict[str, Any]:
    """Run a grid's missing cells in `out`, new or the same sweep's: what `fedpriv sweep --json` says of it."""
    with Stop() as stop, redirect_stdout(StringIO()), ExitStack() as ends:  # where Ray tells of workers that died
        crew = None  # none where nothing is left to do
        if out is None or not is_complete(out):
            crew = ends.enter_context(closing(Crew(workers, ray)))
        grid = resolved_cells(grid, quiet, stop)
        out = out or next_free(grid.name)[0]
        check_data(out, [*grid.cells, *(grid.choosing.cells if grid.choosing else ())])
        with opened_sweep(out, grid, choices_made(out, grid)):

            def worked(part: Grid) -> dict[str, Any]:
                """Run what is missing of some cells, by the crew there is, or by one that is hired for it."""
                nonlocal crew
                missing = [cell for cell in part.cells if not is_finished(place_of(out, cell))]
                if missing and crew is None:
                    crew = ends.enter_context(closing(Crew(workers, ray)))
                return _worked(part, missing, out, crew if missing else None, quiet, stop)

            if grid.choosing is None:
                found = worked(grid)
            else:
                tried = worked(grid.choosing)
                choices = choices_made(out, grid, ended=True)
                write_index(out, grid, choices)
                if not choices:
                    why = next((each["why"] for each in tried["failures"]), "no trial measured an accuracy")
                    raise FedprivError(f"{out}: nothing could be chosen, at no place: {why}")
                found = with_trials(worked(with_choices(grid, choices)), tried, grid.runs)
        told = read_sweep(out)
        return found | {"added_up": told.added_up, "not_added": told.not_added}


def with_trials(found: Mapping[str, Any], tried: Mapping[str, Any], cells: int) -> dict[str, Any]:
    """What `fedpriv sweep --json` prints of a sweep whose settings are chosen: its cells, and the trials beside them.

    A cell failed at whose place nothing could be chosen. `trained` is how many runs the clients' data have been in.
    """
    unchosen = cells - found["cells"]
    return {
        **found, "cells": cells, "failed": found["failed"] + unchosen, "trials": tried["cells"],
        "trials_failed": tried["failed"], "trained": found["finished"] + tried["finished"],
        "seconds": found["seconds"] + tried["seconds"], "workers": max(found["workers"], tried["workers"]),
        "failures": [*tried["failures"], *found["failures"]],
    }  # fmt: skip


def _worked(grid: Grid, missing: list[Cell], out: Path, crew: Crew | None, quiet: bool, stop: Stop) -> dict[str, Any]:
    """Have a crew run the missing cells, with progress: what `fedpriv sweep --json` prints of the sweep."""
    there, workers = len(grid.cells) - len(missing), crew.size if crew else 0
    failures, cells = list[dict[str, Any]](), {cell.id: cell for cell in missing}
    with SweepProgress(len(grid.cells), there, workers, quiet) as progress:
        for done in crew.work(cell_jobs(missing, out)) if crew else ():
            stop.check()
            if done is None:
                progress.waited()
                continue
            progress.ended(done.job.title, done.seconds, done.fault)
            if done.fault is not None:
                cell = cells[done.job.id]
                where = {"place": dict(cell.place), "seed": cell.study.run.seed}
                failures.append({"id": cell.id, **where, "why": done.fault})
        return {
            "directory": str(out), "name": grid.name, "cells": len(grid.cells), "skipped": grid.skipped,
            "finished": there + progress.done, "already": there, "failed": progress.failed,
            "seconds": progress.seconds, "workers": workers, "failures": failures,
        }  # fmt: skip


def resolved_cells(grid: Grid, quiet: bool, stop: Stop) -> Grid:
    """The grid with every cell's free setting calibrated and its promise checked, before anything runs."""
    from server.rounds import planned

    line, checked = LiveLine(quiet), count()
    total = len(grid.cells) + (len(grid.choosing.cells) if grid.choosing else 0)

    def checked_cell(study: Study) -> Study:
        """One cell's study, calibrated and checked as a run's would be; the line tells which it is."""
        stop.check()
        number = next(checked)
        line.show(f"checking cell {number + 1:{len(str(total))}}/{total}", number / total, [])
        return planned(study).study

    try:
        return grid.each(checked_cell)
    finally:
        line.clear()
