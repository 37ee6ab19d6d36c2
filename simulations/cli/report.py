"""`fedpriv report`: a run's or a sweep's table on the terminal; figures and a page in its directory."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fedpriv._base.own_modules import look_for_modules
from server.directory import modules_of
from simulations.cli._command import JSON, Commands, add_command, flag, option
from simulations.cli._words import show_found
from simulations.figures.files import put_files
from simulations.figures.tables import FORMATS, Table
from simulations.report.run import audit_facts, facts
from simulations.report.run.facts import aligned_table
from simulations.report.run.labels import side_by_side
from simulations.report.run.runs import Run
from simulations.report.run.tables import run_tables
from simulations.report.sweep import cells as sweep_cells
from simulations.report.sweep import report as sweep_report
from simulations.report.written import runs_of, sweep_of, write_paper, write_report

HELP = """\
examples:
  fedpriv report runs/digits
  fedpriv report runs/small-peak runs/one-bit runs/peak-is-clip      the page of the first compares all three
  fedpriv report runs/digits --no-html --csv tables      rounds.csv, refusals.csv, runs.csv
  fedpriv report runs/digits --latex      a paper of it: report/latex/main.tex
  fedpriv report out/quick       a sweep, finished or not: the answer, heat-maps, curves, every cell
"""


OPTIONS = (
    option(
        "directories", "DIR", "of a run or a sweep; of several runs, the page of the first compares them", nargs="+"
    ),
    JSON,
    flag("--no-html", "the table alone: no figures and no page"),
    flag("--latex", "what a paper takes, to DIR/report/latex: PDF figures, tables, references.bib, main.tex"),
    option("--csv", "DIR", "write tables for programs there as CSV: a run's rounds, a sweep's cells, …"),
    option("--parquet", "DIR", "write the same there as Parquet (fedpriv[parquet])"),
)


def add_to(commands: Commands) -> None:
    """Add `fedpriv report` to the command's parser."""
    about = "What a run or a sweep did, by its records: a table here, figures and an HTML page in DIR/report."
    add_command(commands, "report", run_report, OPTIONS, description=about, epilog=HELP)


def run_report(options: argparse.Namespace) -> None:
    """Run `fedpriv report`: print a run's table, and others' beside it, or a sweep's answer; write the first's page."""
    look_for_modules(modules_of(Path(options.directories[0])))  # a mechanism of one's own is costed anew
    if any(map(sweep_cells.is_sweep, options.directories)):
        grid = sweep_of(options.directories)
        tables = _tables(options, sweep_report.sweep_tables(grid))
        files = [] if options.no_html else sweep_report.write_sweep_report(grid)
        paper = write_paper(grid) if options.latex else []
        show_found(
            sweep_report.sweep_summary(grid) | _written(files, "files", paper) | tables,
            sweep_report.sweep_text(grid) + _page(files, paper),
            options.json,
        )
        return
    runs = runs_of(options.directories)
    tables = _tables(options, run_tables(runs))
    files = [] if options.no_html else write_report(runs)
    paper = write_paper(runs) if options.latex else []
    first, *others = [facts.run_summary(run) | audit_facts.audit_summary(run) for run in runs]
    found = first | _written(files, "figures", paper) | tables | ({"compared": others} if others else {})
    words = run_table(runs[0]) + (f"\n\n{runs_compared(runs)}" if others else "") + _page(files, paper)
    show_found(found, words, options.json)


def _tables(options: argparse.Namespace, tables: Mapping[str, Table]) -> dict[str, list[str]]:
    """Write a report's tables where --csv and --parquet say: the files, for --json, under the format's name."""
    found = {}
    for word, to_bytes in FORMATS.items():
        if (place := getattr(options, word)) is not None:
            content = {f"{name}.{word}": to_bytes(table) for name, table in tables.items()}
            found[word] = list(map(str, put_files(Path(place), content)))
    return found


def _written(files: Sequence[Path], others: str, paper: Sequence[Path]) -> dict[str, Any]:
    """The files a report wrote, for `fedpriv report --json`: the page, under the name `others` the rest, a paper's."""
    found: dict[str, Any] = {"page": str(files[0]), others: list(map(str, files[1:]))} if files else {}
    return found | ({"latex": list(map(str, paper))} if paper else {})


def _page(files: Sequence[Path], paper: Sequence[Path]) -> str:
    """The last lines of `fedpriv report` on a terminal: where the page is, and the paper; "" where none was written."""
    named = {"page": files[:1], "paper": paper[:1]}
    found = "\n".join(f"{name}: {file}" for name, own in named.items() for file in own)
    return f"\n\n{found}" if found else ""


def run_table(run: Run) -> str:
    """A run as `fedpriv report` prints it for people: what it was, what came of it, what an audit of it found."""
    rows = [*facts.study_facts(run)[1:], *facts.outcome_facts(run), *audit_facts.audit_row(run)]
    width = max(len(name) for name, _ in rows)
    return "\n".join([f"{run.header['name']}  {run.directory}", *(f"  {name:<{width}}  {text}" for name, text in rows)])


def runs_compared(runs: Sequence[Run]) -> str:
    """Several runs as `fedpriv report` prints them beside one another for people, a row each."""
    return aligned_table(*side_by_side(runs))
