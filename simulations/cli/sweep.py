"""`fedpriv sweep`: every cell of a study's grid, side by side, and only those that are missing."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from clients.data.identity import in_words
from clients.flower.place import look_for_modules
from server.progress.words import duration, up
from simulations.cli.account import print_json
from simulations.cli.run import whole_number
from simulations.flower.surroundings import cores
from simulations.sweep.directory import check
from simulations.sweep.grid import SEED, Grid, grid_of
from simulations.sweep.stop import Stop
from simulations.sweep.sweeping import resolved, swept

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
        "sweep", epilog=HELP,
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
        result = swept(grid, out, workers=options.workers, ray=options.ray, quiet=options.quiet)
    except KeyboardInterrupt:
        again = "the same command goes on" if out else "the same command with --out and its directory goes on"
        raise KeyboardInterrupt(again) from None
    if options.json:
        print_json(result)
    if failed := result["failed"]:
        tell = f"fedpriv: {failed:,} of {result['cells']:,} cells failed: the same command tries them again"
        print(tell, file=sys.stderr)
    return 1 if failed else 0


def _forecast(grid: Grid, options: argparse.Namespace) -> dict[str, Any]:
    from simulations.sweep.forecast import forecast

    return forecast(resolved(grid, options.quiet, Stop()), options.workers or cores())


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
