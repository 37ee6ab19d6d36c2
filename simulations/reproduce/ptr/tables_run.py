"""Running a table of [P] for so many minutes: its grid seed by seed, what is finished already taken as it is."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import redirect_stdout
from io import StringIO
from math import inf, isfinite
from pathlib import Path
from time import monotonic

from fedpriv._base.tables import Table, toml_text
from fedpriv.errors import FedprivError
from server.progress.live_line import LiveLine
from server.progress.words import duration_words
from simulations.flower.surroundings import usable_cores
from simulations.reproduce.ptr._cifar import cifar_arrays
from simulations.reproduce.ptr._tables import DIGITS, studies
from simulations.reproduce.ptr.tables_published import TABLES
from simulations.sweep.crew import Crew
from simulations.sweep.directory import STUDY, check_data, is_finished, opened_sweep, place_of
from simulations.sweep.grid import Cell, grid_of
from simulations.sweep.jobs import cell_jobs
from simulations.sweep.stop import Stop
from simulations.sweep.sweeping import resolved_cells

REPORT = 8.0  # seconds that are kept for ending Ray and writing the page


def worked_tables(
    name: str,  # of TABLES, or of what is made instead
    out: Path,
    minutes: float | None,  # all that it may take; None: as long as it takes
    data: str | None = None,  # as for `studies`; for CIFAR-10's table a directory in any of its forms
    seeds: int | None = None,  # the first so many alone; None: all
    made: Callable[[str, float | None, int, str | None], Table] = studies,  # its study with a [sweep]
) -> None:
    """Train as many cells of a table of [P] as the minutes allow, in a sweep's directory begun or gone on with."""
    until = None if minutes is None else monotonic() + max(60 * minutes - REPORT, 54 * minutes)
    if name in TABLES and TABLES[name].colour:
        data = cifar_arrays(data, out)
    if not (out / STUDY).is_file():
        grid = grid_of(toml_text(made(name, minutes, usable_cores(), data)))
    else:  # it was begun, whatever the budget then was
        grid = grid_of(str(out / STUDY))
        if grid.name != name:
            raise FedprivError(f"{out}: holds {grid.name!r}, not {name}: --out names another place")
        kind = grid.cells[0].study.data.kind
        if data is not None and (data == DIGITS) != (kind == "Digits"):
            raise FedprivError(f"{out}: was begun on {kind}, not on {data}: --out names another place")
    try:
        with Stop() as stop, redirect_stdout(StringIO()):  # where Ray tells of workers that died
            grid = resolved_cells(grid, False, stop)
            check_data(out, grid.cells)
            if minutes is not None and until is not None:  # however long the noises took, half of it is for training
                until = max(until, monotonic() + 30 * minutes)
            with opened_sweep(out, grid):
                some = [cell for cell in grid.cells if cell.study.run.seed in grid.seeds[:seeds]]
                missing = [cell for cell in some if not is_finished(place_of(out, cell))]
                if missing:
                    _work(some, missing, out, until, stop)
    except KeyboardInterrupt:
        raise KeyboardInterrupt("the same command goes on") from None


def _work(asked: list[Cell], missing: list[Cell], out: Path, until: float | None, stop: Stop) -> None:
    """Train those of a table's cells that are missing side by side, seed after seed, until done or the time is up."""
    total, seeds = len(asked), len({cell.study.run.seed for cell in asked})
    begun, busy, ended = monotonic(), 0.0, 0
    crew, line = Crew(None, None), LiveLine(quiet=False)
    try:
        for done in crew.work(cell_jobs(missing, out)):
            stop.check()
            if done is not None:
                ended, busy = ended + 1, busy + done.seconds
                if done.fault is not None:
                    line.say(f"failed: {done.job.title}: {done.fault}")
            left = len(missing) - ended
            by_cells = busy / ended * left / crew.size if ended else inf
            seconds = by_cells if until is None else min(by_cells, max(until - monotonic(), 0.0))
            so_far = monotonic() - begun
            share = so_far / (so_far + seconds) if so_far else 0.0
            facts = [f"about {duration_words(seconds)} left".ljust(24)] if isfinite(seconds) else []
            seed = min((total - left) * seeds // total, seeds - 1) + 1
            words = f"cell {total - left:{len(str(total))}}/{total}"
            line.show(words, share, [*facts, f"seed {seed} of {seeds}"])
            if until is not None and monotonic() > until:
                break
    finally:
        line.clear()
        crew.close()
