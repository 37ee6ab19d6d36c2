"""`fedpriv report`: a run's or a sweep's table on the terminal; figures and a page in its directory."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from simulations.cli.account import print_json
from simulations.report.run import audit_facts, facts
from simulations.report.run.facts import aligned
from simulations.report.run.runs import Run, labels
from simulations.report.sweep import cells as sweep_cells
from simulations.report.sweep import report as sweep_report
from simulations.report.written import runs_of, sweep_of, write

HELP = """\
examples:
  fedpriv report runs/digits
  fedpriv report runs/small-peak runs/one-bit runs/peak-is-clip      the page of the first compares all three
  fedpriv report out/quick       a sweep, finished or not: the answer, heat-maps, curves, every cell
"""


def add_to(commands: Any) -> None:
    """Add the command to a parser's."""
    command = commands.add_parser(
        "report", epilog=HELP,
        description="What a run or a sweep did, by its records: a table here, figures and an HTML page in DIR/report.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    command.add_argument("directories", nargs="+", metavar="DIR",
                         help="of a run or a sweep; of several runs, the page of the first compares them")  # fmt: skip
    command.add_argument("--json", action="store_true", help="one JSON object on standard output")
    command.add_argument("--no-html", action="store_true", help="the table alone: no figures and no page")
    command.set_defaults(run=run_report)


def run_report(options: argparse.Namespace) -> None:
    """Print the table of the first run and one that compares, or a sweep's answer; write the page of the first."""
    if any(map(sweep_cells.is_sweep, options.directories)):
        _sweep(options)
        return
    runs = runs_of(options.directories)
    files = [] if options.no_html else write(runs)
    if options.json:
        first, *others = [facts.summary(run) | audit_facts.summary(run) for run in runs]
        first |= {"page": str(files[0]), "figures": list(map(str, files[1:]))} if files else {}
        print_json(first | ({"compared": others} if others else {}))
        return
    print(table(runs[0]) + (f"\n\n{compared(runs)}" if len(runs) > 1 else ""))
    if files:
        print(f"\npage: {files[0]}")


def _sweep(options: argparse.Namespace) -> None:
    """Print the answer of a sweep; write its page, figures and tables."""
    grid = sweep_of(options.directories)
    files = [] if options.no_html else sweep_report.write(grid)
    if options.json:
        written = {"page": str(files[0]), "files": list(map(str, files[1:]))} if files else {}
        print_json(sweep_report.summary(grid) | written)
        return
    print(sweep_report.text(grid) + (f"\n\npage: {files[0]}" if files else ""))


def table(run: Run) -> str:
    """A run for people."""
    rows = [*facts.study(run)[1:], *facts.outcome(run), *audit_facts.line(run)]
    width = max(len(name) for name, _ in rows)
    return "\n".join([f"{run.header['name']}  {run.directory}", *(f"  {name:<{width}}  {text}" for name, text in rows)])


def compared(runs: Sequence[Run]) -> str:
    """Several runs, a row each."""
    head = ["", *(name for name, _ in facts.beside(runs[0]))]
    return aligned(
        head, [[name, *(text for _, text in facts.beside(run))] for name, run in zip(labels(runs), runs, strict=True)]
    )
