"""`fedpriv sweep`: every cell of a study's grid, side by side, and only those that are missing."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from fedpriv._base.own_modules import look_for_modules
from fedpriv.errors import FedprivError
from simulations.cli._command import JSON, QUIET, Commands, add_command, flag, option
from simulations.cli._words import as_real, show_found
from simulations.cli.run import whole_number
from simulations.flower.surroundings import usable_cores
from simulations.sweep.directory import check_sweep_directory
from simulations.sweep.grid import grid_of
from simulations.sweep.progress import selection_table, sweep_table
from simulations.sweep.stop import Stop
from simulations.sweep.sweeping import resolved_cells, swept_grid

HELP = """\
A study's [sweep] table says what is varied: "run.seed" = [1, 2, 3], "attack" = [{kind = "SignFlip"}, …]. Every
combination is a cell, run as `fedpriv run` would, one in each worker. Starting again does only what is missing; what
failed is tried again. Exit code 1 where a cell failed, or its attack did every time.

examples:
  fedpriv sweep quick --out runs/quick && fedpriv report runs/quick
  fedpriv sweep quick --dry-run
  fedpriv sweep my_study.toml --set run.rounds=5 --set 'sweep.run.seed=[1]' --workers 8
  fedpriv sweep credible --ray auto --out /shared/credible
  fedpriv sweep quick --private --epsilon 8 --out runs/chosen      one cell, chosen at ε ≤ 8 in all
"""
GIVEN = ("epsilon", "delta", "trials")  # options of a private choice

OPTIONS = (
    option("study", "STUDY", "a TOML file with a [sweep] table, or the name of one that ships (fedpriv list)"),
    option(
        "--set", "table.key=value",
        "change one setting of all cells, or with sweep.PATH=[…] the grid; may be repeated",
        action="append", default=[], dest="overrides",
    ),
    option("--out", "DIR", "where the sweep goes, or goes on (default runs/NAME, or the next number free)"),
    option("--ray", "ADDRESS", "a Ray cluster that is there already (default: Ray on this machine)"),
    option("--workers", "N", "cells at a time (default: one a core, of the cluster's too)", type=whole_number),
    flag("--private", "let out one cell alone, the best of a secret number of trials, at the ε of --epsilon in all"),
    option("--epsilon", "E", "with --private: what choosing may cost; cells' noise is calibrated to it", type=as_real),
    option("--delta", "D", "with --private: the δ of that (default: the study's)", type=as_real),
    option("--trials", "MEAN", "with --private: trials on average (default 10)", type=as_real),
    flag("--dry-run", "check every cell, print the grid and the expected time; run nothing"),
    QUIET,
    JSON,
)  # fmt: skip


def add_to(commands: Commands) -> None:
    """Add `fedpriv sweep` to the command's parser."""
    about = "Run every cell of the grid that a study's [sweep] table spans."
    add_command(commands, "sweep", run, OPTIONS, description=about, epilog=HELP)


def run(options: argparse.Namespace) -> int:
    """Run `fedpriv sweep`: train every missing cell of a study's grid or, dry, forecast that; 1 where cells failed."""
    look_for_modules(Path(options.study).parent)
    if options.private:
        return choose_privately(options)
    if given := next((name for name in GIVEN if getattr(options, name) is not None), None):
        raise FedprivError(f"--{given} is of a private choice: --private beside it")
    grid = grid_of(options.study, options.overrides)
    out = None if options.out is None else Path(options.out)
    if options.dry_run:
        from simulations.sweep.forecast import sweep_forecast, sweep_forecast_table

        found = sweep_forecast(resolved_cells(grid, options.quiet, Stop()), options.workers or usable_cores())
        show_found(found, sweep_forecast_table(found), options.json)
        return 0
    if out is not None:
        check_sweep_directory(out, grid)
    try:
        result = swept_grid(grid, out, workers=options.workers, ray=options.ray, quiet=options.quiet)
    except KeyboardInterrupt:
        again = "the same command goes on" if out else "the same command with --out and its directory goes on"
        raise KeyboardInterrupt(again) from None
    show_found(result, sweep_table(result), options.json)
    if failed := result["failed"]:
        tell = f"fedpriv: {failed:,} of {result['cells']:,} cells failed: the same command tries them again"
        print(tell, file=sys.stderr)
    return 1 if failed else 0


def choose_privately(options: argparse.Namespace) -> int:
    """Run `fedpriv sweep --private`: one cell chosen at a certified ε; or, dry, what choosing would cost."""
    from simulations.sweep.private import check_selection_directory, priced_offer, run_selection

    if options.epsilon is None:
        raise FedprivError("--private needs --epsilon: what choosing may cost in all, such as --epsilon 8")
    if beside := next((name for name in ("workers", "ray") if getattr(options, name) is not None), None):
        raise FedprivError(f"--{beside} is of a sweep whose cells are all seen: private trials run one after the other")
    out = None if options.out is None else Path(options.out)
    if out is not None:
        check_selection_directory(out)
    given = {name: getattr(options, name) for name in GIVEN if getattr(options, name) is not None}
    offer = priced_offer(options.study, options.overrides, **given)
    found = offer.facts if options.dry_run else run_selection(offer, out)
    show_found(found, selection_table(found), options.json)
    return 1 if "failed" in found else 0
