"""What `fedpriv report` says of a sweep on a terminal and as JSON, and the files it writes."""

from __future__ import annotations

from pathlib import Path
from textwrap import fill
from typing import Any, get_args

from simulations.figures.files import put_files
from simulations.figures.ranking import Ranking
from simulations.report.run.facts import aligned_table
from simulations.report.sweep._answer import answer, caveats, progress, standings_table
from simulations.report.sweep._backdoors import backdoor_ranking, success_of
from simulations.report.sweep._order import command_to_rank, distance
from simulations.report.sweep._spots import Key
from simulations.report.sweep._standing import Standing, Standings
from simulations.report.sweep._tables import files, sweep_tables
from simulations.report.sweep.cells import WORDS, State
from simulations.report.sweep.grid import Grid

__all__ = ["sweep_summary", "sweep_tables", "sweep_text", "write_sweep_report"]

BEGUN = ("heat-map-", "backdoor-map-", "attackers-", "epsilon-", "bytes-", "rounds-")  # so names of figures begin
BEST = 12  # defences on a terminal
FAILED = 5  # cells that failed, and as many that were not tried, on a terminal


def write_sweep_report(grid: Grid) -> list[Path]:
    """Write the report of a sweep into its directory: page, pictures, tables; their paths, the page's first."""
    from simulations.report.sweep._page import report  # matplotlib takes a while, and a table needs none

    html, pictures = report(grid)
    content = {"index.html": html.encode(), **{f"{each.name}.png": each.png for each in pictures}, **files(grid)}
    return put_files(grid.sweep.directory / "report", content, BEGUN)


def sweep_text(grid: Grid) -> str:
    """What `fedpriv report` prints of a sweep: the answer, how the best defences stand, what has failed."""
    standings, sweep = Standings(grid), grid.sweep
    lines = [f"{sweep.name}  {sweep.directory}  {progress(sweep)}"]
    lines += [fill(each, 118, initial_indent="  ", subsequent_indent="    ") for each in _said(standings)]
    if len(standings.order) > 1:
        head, rows = standings_table(standings)
        lines += ["", aligned_table(head, rows[:BEST])]
    for state in ("failed", "untried"):
        if cells := sweep.those(state):
            lines += ["", f"{WORDS.get(state, state)}:"]
            lines += [f"  {grid.cell(cell)}: {cell.why}" for cell in cells[:FAILED]]
    if command := command_to_rank(standings):
        lines += ["", f"to rank them: {command}"]
    return "\n".join(lines)


def _said(standings: Standings) -> list[str]:
    """All sentences of a sweep's report: what it has found, and what to know before believing it."""
    return [*answer(standings), *caveats(standings)]


def sweep_summary(grid: Grid) -> dict[str, Any]:
    """What `fedpriv report --json` prints of a sweep: cells by state, defences in order, sentences."""
    standings, sweep, opened = Standings(grid), grid.sweep, backdoor_ranking(grid)
    return {
        "directory": str(sweep.directory),
        "name": sweep.name,
        "cells": len(sweep.cells),
        **{state: len(sweep.those(state)) for state in get_args(State)},
        "seeds": list(sweep.seeds),
        "trials": len(sweep.trials),
        "trained": len(sweep.trained),
        "ranked": standings.ranking.ranked,
        "to_rank": command_to_rank(standings) or None,
        "best": list(map(grid.defence, standings.ranking.first)),
        "defences": [_summed(standings, each, opened) for each in standings.order],
        "added_up": sweep.added_up,
        "not_added": sweep.not_added,
        "said": _said(standings),
    }  # fmt: skip


def _summed(standings: Standings, standing: Standing, opened: Ranking[Key]) -> dict[str, Any]:
    """A defence in what `fedpriv report --json` prints of a sweep: what it keeps, ±, how far behind the first it is.

    And, where a backdoor was tried, how often it opens.
    """
    apart, kept, success = distance(standings, standing), standing.kept, success_of(opened, standing.defence)
    return {
        "defence": standings.grid.defence(standing.defence),
        "mean": standing.mean,
        "half_width": kept.half if kept else None,
        "seeds": len(standing.by_seed),
        "behind": apart and {"mean": apart.mean, "half_width": apart.half, "distinguishable": bool(apart.side)},
        "least": standing.least.mean if standing.least else None,
        "survives": standing.overall.words,
        **({"backdoor": success.mean, "backdoor_half_width": success.half} if success else {}),
    }
