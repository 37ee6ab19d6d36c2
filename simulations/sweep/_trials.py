"""The trials of a private choice: run where nothing of them stays, and the best let out alone."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from math import inf, isfinite
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from numpy.random import Generator

from fedpriv import records
from fedpriv._base.files import replace_file
from fedpriv._base.spelling import short_number
from fedpriv.accounting.selection import TrialLaw
from fedpriv.errors import FAULTS, FedprivError
from fedpriv.studies import file as study_file
from server import rounds
from server.directory import kept_alone
from simulations.flower.surroundings import watched_scratch
from simulations.report.run.runs import read_run
from simulations.runs.direct import Here
from simulations.sweep.directory import INDEX
from simulations.sweep.grid import Cell

FILE = "selection.json"  # what was chosen and what it cost, and before that: that it has been begun
STUDY, MODEL = "selected.toml", "model.npz"  # of the cell that was chosen
BEGUN, ENDED = "begun", "selected"  # how far it is
# What is said of the best trial's result: not its data, whose digest tells one record from another.
SAID = ("accuracy", "r2", "accuracy_is", "evaluated", "labels", "rounds", "why")
FAILED = "why is not told, for it may be of clients' records: a run of selected.toml, another release, says it"


@dataclass(frozen=True)
class Trial:
    """One trial of a private choice: its cell, where its run lies, and what is said of it if it is the best."""

    cell: Cell
    score: float  # by which the best is chosen, a function of what is let out; −∞ where the run failed
    said: dict[str, Any]
    weights: bytes  # model.npz; b"" where the run failed


def best_trial(cells: Sequence[Cell], law: TrialLaw, rng: Generator) -> Trial:
    """The best of trials of cells, run and removed one after the other: a private choice's, for its directory."""
    with private_folder() as folder:
        return best_of(cells, law, rng, lambda cell: tried_cell(cell, folder / "trial"))


def best_of(cells: Sequence[Cell], law: TrialLaw, rng: Generator, tried: Callable[[Cell], Trial]) -> Trial:
    """The best of a number of trials drawn by the law of a private choice, each of a cell drawn by lot."""
    best: Trial | None = None
    for _ in range(law.drawn(rng)):
        trial = tried(cells[int(rng.integers(len(cells)))])
        if best is None or trial.score > best.score:  # of equals the first, which is each of them by the same lot
            best = trial
    assert best is not None
    return best


@contextmanager
def private_folder() -> Iterator[Path]:
    """A directory of this user's own for trials of a private choice: gone at the end, however this process ends."""
    folder = Path(mkdtemp(prefix="fedpriv-trials-"))
    watch = watched_scratch(folder)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        watch.communicate()


def tried_cell(cell: Cell, place: Path) -> Trial:
    """One trial of a private choice: the cell's run, read and then removed; nothing is printed, and nothing raised."""
    with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
        try:
            result = rounds.run_rounds(cell.study, place, Here(), quiet=True)
            weights = read_run(place).export(place / MODEL).read_bytes()
            return Trial(cell, score_of(result), {name: result[name] for name in SAID if name in result}, weights)
        except FAULTS:
            return Trial(cell, -inf, {"failed": FAILED}, b"")
        finally:
            shutil.rmtree(place, ignore_errors=True)


def score_of(result: Mapping[str, Any]) -> float:
    """What a private choice goes by, of a run's result: accuracy or R², or the accuracy that answers prove at least.

    >>> score_of({"accuracy": None, "r2": 0.5}), score_of({"accuracy": None, "evaluated": {"low": 0.25}}), score_of({})
    (0.5, 0.25, -inf)
    """
    figures = result.get("accuracy"), result.get("r2"), (result.get("evaluated") or {}).get("low")
    found = next((float(own) for own in figures if own is not None), -inf)
    return found if isfinite(found) else -inf


def check_selection_directory(out: Path) -> None:
    """Refuse a directory for a private choice that holds anything: another choice there would cost its ε again."""
    if (out / FILE).is_file():
        try:
            found = json.loads((out / FILE).read_text(encoding="utf-8"))
            done, cost = found["state"] == ENDED, short_number(found["epsilon"]["upper"], 4)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise FedprivError(f"{out / FILE}: cannot be read ({error}): --out names another place") from None
        what = "holds a choice already" if done else "a choice was begun here and never let anything out"
        raise FedprivError(
            f"{out}: {what}, and its ε = {cost} is spent: --out makes another, which costs its own beside"
        )
    if (out / INDEX).is_file():
        raise FedprivError(f"{out}: holds a sweep whose cells are all to be seen: --private chooses in another --out")
    if out.exists() and (not out.is_dir() or any(not file.name.startswith(".") for file in out.iterdir())):
        raise FedprivError(f"{out}: is there already and holds no choice: --out names another place")


@contextmanager
def opened_selection(out: Path, facts: Mapping[str, Any]) -> Iterator[Callable[[Trial], dict[str, Any]]]:
    """While it lasts the directory is this choice's alone; what it costs is on disk before any trial begins.

    What it gives writes the best trial there, and says all that is let out.
    """
    out.mkdir(parents=True, exist_ok=True)

    def written(told: Mapping[str, Any]) -> None:
        """Put what is told of the choice so far into its directory, durably."""
        replace_file(out / FILE, records.record_bytes(dict(told)), mode=0o644)

    def let_out(best: Trial) -> dict[str, Any]:
        """Write the best trial of a private choice into its directory: all that is told of it."""
        found = {**facts, "state": ENDED, "place": {**best.cell.place, **best.cell.chosen}, **best.said}
        replace_file(out / STUDY, study_file.study_text(best.cell.study).encode(), mode=0o644)
        if best.weights:
            replace_file(out / MODEL, best.weights, mode=0o644)
        written(found)
        return found

    with kept_alone(out):
        check_selection_directory(out)  # again, now that no other can have chosen here since
        written({**facts, "state": BEGUN})
        yield let_out
