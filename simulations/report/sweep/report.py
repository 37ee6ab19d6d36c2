"""What `fedpriv report` says of a sweep on a terminal and as JSON, and the files it writes."""

from __future__ import annotations

from pathlib import Path
from textwrap import fill
from typing import Any, get_args

from simulations.figures.files import put_files
from simulations.report.run.facts import aligned_table
from simulations.report.sweep._answer import answer, caveats, progress
from simulations.report.sweep._standing import Standings
from simulations.report.sweep._tables import files, sweep_tables
from simulations.report.sweep.cells import WORDS, State
from simulations.report.sweep.grid import Grid

__all__ = ["sweep_summary", "sweep_tables", "sweep_text", "write_sweep_report"]

PICTURES = ("heat-map-", "attackers-", "epsilon-", "bytes-", "rounds-")  # what names of figures begin with
BEST = 12  # defences on a terminal
FAILED = 5  # cells that failed, and as many that were not tried, on a terminal


def write_sweep_report(grid: Grid) -> list[Path]:
    """Write the report of a sweep into its directory: page, pictures, tables; their paths, the page's first."""
    from simulations.report.sweep._page import report  # matplotlib takes a while, and a table needs none

    html, pictures = report(grid)
    content = {"index.html": html.encode(), **{f"{each.name}.png": each.png for each in pictures}, **files(grid)}
    return put_files(grid.sweep.directory / "report", content, PICTURES)


def sweep_text(grid: Grid) -> str:
    """What `fedpriv report` prints of a sweep: the answer, how the best defences stand, what has failed."""
    standings, sweep = Standings(grid), grid.sweep
    lines = [f"{sweep.name}  {sweep.directory}  {progress(sweep)}"]
    lines += [fill(each, 118, initial_indent="  ", subsequent_indent="    ") for each in _said(standings)]
    if len(standings.order) > 1:
        columns = 4 if standings.attacked else 3
        head = ["defence", "on average", "at the least", "survives"]
        rows = [[grid.defence(each.defence), each.words, each.least.words if each.least else "–", each.overall.words]
                for each in standings.order[:BEST]]  # fmt: skip
        lines += ["", aligned_table(head[:columns], [row[:columns] for row in rows])]
    for state in ("failed", "untried"):
        if cells := sweep.those(state):
            lines += ["", f"{WORDS.get(state, state)}:"]
            lines += [f"  {grid.cell(cell)}: {cell.why}" for cell in cells[:FAILED]]
    return "\n".join(lines)


def _said(standings: Standings) -> list[str]:
    """All sentences of a sweep's report: what it has found, and what to know before believing it."""
    return [*answer(standings), *caveats(standings)]


def sweep_summary(grid: Grid) -> dict[str, Any]:
    """What `fedpriv report --json` prints of a sweep: cells by state, defences in order, sentences."""
    standings, sweep = Standings(grid), grid.sweep
    return {
        "directory": str(sweep.directory),
        "name": sweep.name,
        "cells": len(sweep.cells),
        **{state: len(sweep.those(state)) for state in get_args(State)},
        "seeds": list(sweep.seeds),
        "defences": [
            {"defence": grid.defence(each.defence), "mean": each.mean,
             "least": each.least.mean if each.least else None, "survives": each.overall.words}
            for each in standings.order
        ],
        "added_up": sweep.added_up,
        "said": _said(standings),
    }  # fmt: skip
