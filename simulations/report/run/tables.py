"""Runs as tables for programs: a row a round, a row a reason why messages did not count, a row a run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from fedpriv._base.tables import leaf_table
from fedpriv.accounting.course import LEVELS
from fedpriv.records import Line
from simulations.figures.tables import Table
from simulations.report.run.facts import run_summary
from simulations.report.run.runs import Run

SIDES = ("lower", "upper")
ALWAYS = (  # columns that every run's rounds have, in their order
    "run", "round", "asked", "answered", "rejected", "failed", "skipped", "accuracy", "loss",
    "epsilon_lower", "epsilon_upper", "mu_lower", "mu_upper", "mu_up_to",
    *(f"beta_{level:g}_{side}" for level in LEVELS for side in SIDES), "bytes_up", "seconds",
)  # fmt: skip


def run_tables(runs: Sequence[Run]) -> dict[str, Table]:
    """The tables of runs that `fedpriv report --csv` writes, by name: rounds, refusals, runs.

    A round's ε is what that many rounds give away; the run's stands in `runs`, and is another where it ended early.
    """
    rounds = [_round(run, line) for run in runs for line in run.rounds]
    refusals = [
        [str(run.directory), line["round"], what, reason, count]
        for run in runs for line in run.rounds for what in ("rejected", "failed")
        for reason, count in line.get(what, {}).items()
    ]  # fmt: skip
    return {
        "rounds": _table(rounds, ALWAYS),
        "refusals": (["run", "round", "what", "reason", "clients"], refusals),
        "runs": _table(({"run": str(run.directory)} | leaf_table(run_summary(run), "_") for run in runs), ()),
    }


def _round(run: Run, line: Line) -> Mapping[str, Any]:
    """One round of a run as a row by its columns' names, with the seconds that it took."""
    counted = {name: sum(line[name].values()) for name in ("rejected", "failed") if name in line}
    told = {name: value for name, value in (line | counted).items() if name != "kind"}
    seconds = run.timings.get(line["round"], {}).get("seconds")
    return {"run": str(run.directory)} | leaf_table(told, "_") | {"seconds": seconds}


def _table(rows: Iterable[Mapping[str, Any]], first: Sequence[str]) -> Table:
    """Rows by name as a table of a run's report: these columns first, then those of which a value is known."""
    rows = [{name: str(own) if isinstance(own, list | tuple) else own for name, own in row.items()} for row in rows]
    names = dict.fromkeys([*first, *(name for row in rows for name, value in row.items() if value is not None)])
    return list(names), [[row.get(name) for name in names] for row in rows]
