"""`fedpriv sweep`: every cell of a study's grid, side by side, and only those that are missing."""

from __future__ import annotations

import argparse
import sys
from contextlib import redirect_stdout
from io import StringIO
from itertools import count
from pathlib import Path
from shlex import quote
from typing import Any

from clients.data_identity import in_words
from clients.place import look_for_modules
from fedpriv.study import Study
from server.live_line import LiveLine
from server.words import duration, up
from simulations.account_commands import print_json
from simulations.run_commands import whole_number
from simulations.run_directory import next_free
from simulations.surroundings import cores
from simulations.sweep.crew import Crew
from simulations.sweep.directory import check, check_data, complete, finished, opened, place_of
from simulations.sweep.grid import SEED, Cell, Grid, grid_of
from simulations.sweep.progress import SweepProgress
from simulations.sweep.stop import Stop

HELP = """\
A study's [sweep] table says what is varied: "run.seed" = [1, 2, 3], "attack" = [{kind = "SignFlip"}, …]. Every
combination is a cell, run as `fedpriv run` would, one in each worker. Starting again does only what is missing; what
failed is tried again. Exit code 1 where a cell failed, or its attack did every time.

examples:
  fedpriv sweep quick --out runs/quick && fedpriv report runs/quick
  fedpriv sweep quick --dry-run
  fedpriv sweep my_study.toml --set run.rounds=5 --set 'sweep.run.seed=[1]' --workers 8
  fedpriv sweep credible --ray auto --out /shared/credible
"""


def add_to(commands: Any) -> None:
    """Add the command to a parser's."""
    command = commands.add_parser(
        "sweep", help="run a grid of studies", epilog=HELP,
        description="Run every cell of the grid that a study's [sweep] table spans.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    add = command.add_argument
    add("study", metavar="STUDY", help="a TOML file with a [sweep] table, or the name of one that ships (fedpriv list)")
    add("--set", metavar="table.key=value", action="append", default=[], dest="overrides",
        help="change one setting of all cells, or with sweep.PATH=[…] the grid; may be repeated")  # fmt: skip
    add("--out", metavar="DIR", help="where the sweep goes, or goes on (default runs/NAME, or the next number free)")
    add("--ray", metavar="ADDRESS", help="a Ray cluster that is there already (default: Ray on this machine)")
    add("--workers", type=whole_number, metavar="N", help="cells at a time (default: one a core, of the cluster's too)")
    add("--dry-run", action="store_true", help="check every cell, print the grid and the expected time; run nothing")
    add("--quiet", action="store_true", help="no progress on standard error")
    add("--json", action="store_true", help="one JSON object on standard output")
    command.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run the grid, or say what it would take; 1 where cells failed."""
    look_for_modules(Path(options.study).parent)
    grid = grid_of(options.study, options.overrides)
    out = None if options.out is None else Path(options.out)
    if options.dry_run:
        _show(_forecast(grid, options), options.json)
        return 0
    if out is not None:
        check(out, grid)
    try:
        with Stop() as stop, redirect_stdout(StringIO()):  # where Ray tells of workers that died
            result = _run(grid, out, options, stop)
    except KeyboardInterrupt:
        again = "the same command goes on" if out else "the same command with --out and its directory goes on"
        raise KeyboardInterrupt(again) from None
    if options.json:
        print_json(result)
    if failed := result["failed"]:
        tell = f"fedpriv: {failed:,} of {result['cells']:,} cells failed: the same command tries them again"
        print(tell, file=sys.stderr)
    return 1 if failed else 0


def _run(grid: Grid, out: Path | None, options: argparse.Namespace, stop: Stop) -> dict[str, Any]:
    crews: list[Crew] = []  # none where nothing is left to do
    try:
        if out is None or not complete(out):
            crews.append(Crew(options.workers, options.ray))
        grid = _resolved(grid, options.quiet, stop)
        out = out or next_free(grid.name)[0]
        check_data(out, grid.cells)
        with opened(out, grid):
            missing = [cell for cell in grid.cells if not finished(place_of(out, cell))]
            if missing and not crews:
                crews.append(Crew(options.workers, options.ray))
            return _worked(grid, missing, out, crews[0] if missing else None, options.quiet, stop)
    finally:
        for crew in crews:
            crew.close()


def _worked(grid: Grid, missing: list[Cell], out: Path, crew: Crew | None, quiet: bool, stop: Stop) -> dict[str, Any]:
    """What --json prints, when all that is missing has been done."""
    there, workers = len(grid.cells) - len(missing), crew.size if crew else 0
    failures: list[dict[str, Any]] = []
    with SweepProgress(len(grid.cells), there, workers, quiet) as progress:
        for done in crew.work(missing, out) if crew else ():
            stop.check()
            if done is None:
                progress.waited()
                continue
            progress.ended(done.cell.title, done.seconds, done.fault)
            if done.fault is not None:
                where = {"place": dict(done.cell.place), "seed": done.cell.study.run.seed}
                failures.append({"id": done.cell.id, **where, "why": done.fault})
        result = {
            "directory": str(out), "name": grid.name, "cells": len(grid.cells), "skipped": grid.skipped,
            "finished": there + progress.done, "already": there, "failed": progress.failed,
            "seconds": progress.seconds, "workers": workers, "failures": failures,
        }  # fmt: skip
        progress.finish(_table(result))
    return result


def _resolved(grid: Grid, quiet: bool, stop: Stop) -> Grid:
    """Every cell's free setting calibrated and every promise of it checked, before anything runs."""
    from server.rounds import Plan

    line, total, checked = LiveLine(quiet), len(grid.cells), count()

    def resolved(study: Study) -> Study:
        stop.check()
        number = next(checked)
        line.show(f"checking cell {number + 1:{len(str(total))}}/{total}", number / total, [])
        return Plan.of(study).study

    try:
        return grid.each(resolved)
    finally:
        line.clear()


def _table(result: dict[str, Any]) -> list[tuple[str, str]]:
    earlier = f", {result['already']:,} of them before" if result["already"] else ""
    failed = f", {result['failed']:,} failed" if result["failed"] else ""
    took = [("time", f"{duration(result['seconds'])}, {result['workers']} workers")] if result["workers"] else []
    place = str(result["directory"])
    return [
        ("cells", f"{result['finished']:,} of {result['cells']:,} finished{earlier}{failed}"),
        *took,
        ("directory", place),
        ("", f"fedpriv report {quote(place)}"),
    ]


def _forecast(grid: Grid, options: argparse.Namespace) -> dict[str, Any]:
    from simulations.sweep.forecast import forecast

    return forecast(_resolved(grid, options.quiet, Stop()), options.workers or cores())


def _show(found: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(found)
        return
    skipped = f", {found['skipped']:,} impossible combinations left out" if found["skipped"] else ""
    print(f"{found['name']}: {found['cells']:,} cells{skipped}")
    axes = [*found["axes"], {"path": SEED, "values": list(map(str, found["seeds"]))}]
    for axis in axes:
        print(f"  {axis['path']} ({len(axis['values'])}): {'; '.join(axis['values'])}")
    for data in found["data"]:
        print(f"  {in_words(data, data['path'])}")
    print(f"  ε (at most): {', '.join(dict.fromkeys(up(epsilon, 3) for epsilon in found['epsilon']))}")
    each, workers = duration(found["seconds_a_cell"]), found["workers"]
    print(f"  expected time: about {duration(found['seconds'])} on {workers} workers, {each} a cell")
