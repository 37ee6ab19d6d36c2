"""What a sweep's directory tells: its axes, and of every cell what its records say, or why they say nothing."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from math import inf, isfinite
from pathlib import Path
from typing import Any, Literal

from fedpriv import records
from fedpriv._base.loading import loaded_object
from fedpriv.accounting.event import Event
from fedpriv.accounting.selection import epsilon_of_all
from fedpriv.errors import FedprivError
from fedpriv.trust import Word
from server.directory import data_place
from server.progress.words import kind_alone, kind_with_settings
from simulations.report.frames import data_frame
from simulations.report.run.runs import Run, study_text

FORMAT = 1  # of the index
INDEX = "sweep.json"  # the file that makes a directory a sweep's
State = Literal["done", "untried", "unfinished", "failed", "missing"]  # untried: its attack failed every time
Promise = tuple[str, Word, str, float]  # what a cell promises: unit, trust, adjacency, δ

WORDS: dict[State, str] = {"untried": "not tried"}  # of states whose name is none


@dataclass(frozen=True)
class Axis:
    """One key of the [sweep] table: a dotted path and the values it takes, as they are called."""

    path: str
    values: tuple[str, ...]

    @cached_property
    def told(self) -> Mapping[str, str | int | float]:
        """The values as frames and files for programs have them: numbers where all are written as Python writes those.

        >>> Axis("clients.byzantine", ("0", "0.1")).told, Axis("release", ("1.0", "01.1")).told
        ({'0': 0, '0.1': 0.1}, {'1.0': '1.0', '01.1': '01.1'})
        """
        found = dict[str, str | int | float]()
        for value in self.values:
            for number in (int, float):
                with suppress(ValueError):
                    if repr(number(value)) == value:
                        found[value] = number(value)
        return found if len(found) == len(self.values) else {value: value for value in self.values}


@dataclass(frozen=True)
class Ran:
    """What the records of a cell say of it."""

    accuracy: float | None  # the last that was measured
    curve: tuple[tuple[int, float], ...]  # accuracy by round, where it was measured
    lower: float | None  # bound of ε at its end; None where nothing was costed
    mu: dict[str, float] | None  # μ at its end, from both sides
    beta: dict[str, dict[str, float]] | None  # β at its end by α, from both sides
    upper: float | None
    guarantee: Promise | None  # None without noise
    client_bytes: int  # of one client in one round
    bytes_up: int | None  # of all clients in all rounds; None where who was drawn is secret, and who failed
    rejected: Mapping[str, int]  # messages that did not count, by reason
    failed: Mapping[str, int]  # clients that sent nothing, by reason
    rounds: int  # that are recorded
    clients: int
    byzantine: int  # of the clients
    attack: str
    aggregation: str
    test_examples: int  # held out: accuracy is measured on them
    backdoor: float | None  # the last share of the records with its trigger that is taken for its target
    data: Mapping[str, Any] | None  # identity of the data it was made on; None of an earlier version's run
    where: str | None  # where the data lay when it began
    given: tuple[Event, ...] | None  # what it gave away of the worst client; None where no ledger could say that here

    @property
    def lost(self) -> tuple[Mapping[str, int] | None, ...]:
        """What the cell's run rejected, and what failed, by reason; None of both where who was drawn is secret."""
        return (None, None) if self.bytes_up is None else (self.rejected, self.failed)


@dataclass(frozen=True)
class Cell:
    """One point of the grid with one seed."""

    id: str  # also the name of its directory
    place: Mapping[str, str]  # the name of its value on each axis, by path
    seed: int
    state: State
    why: str  # how it ended, or what became of it
    ran: Ran | None  # None where there are no records that can be read
    chosen: Mapping[str, str] = field(default_factory=dict)  # what was chosen there, not varied: a label by its path

    @property
    def accuracy(self) -> float | None:
        """The cell's accuracy at the end of its run; None unless the cell is done and one was measured."""
        return self.ran.accuracy if self.ran and self.state == "done" else None


@dataclass(frozen=True, eq=False)
class Sweep:
    """A sweep as its directory tells it: the axes, and every cell of them with every seed."""

    directory: Path
    name: str
    about: str  # what its study says of itself
    axes: tuple[Axis, ...]
    seeds: tuple[int, ...]
    cells: tuple[Cell, ...]
    study: str  # the study.toml with its [sweep] table, "" where there is none
    chosen: tuple[Axis, ...] = ()  # settings that were not varied but chosen at each place, and the values tried
    trials: tuple[Cell, ...] = ()  # by which that was done: cells of other seeds, measured on records set aside

    @cached_property
    def done(self) -> list[Cell]:
        """The cells of the sweep that are done, and so count in its means."""
        return self.those("done")

    def those(self, state: State) -> list[Cell]:
        """The cells of the sweep that are in one state, such as failed or missing."""
        return [cell for cell in self.cells if cell.state == state]

    @property
    def trained(self) -> list[Cell]:
        """Every cell that was trained, the trials of a choosing too: each took part of its clients' ε."""
        return [cell for cell in (*self.cells, *self.trials) if cell.ran]

    @property
    def best(self) -> Cell | None:
        """The done cell of the highest accuracy, by itself and not by a mean over seeds; None where none is done."""
        return max((cell for cell in self.done if cell.ran), key=lambda cell: cell.accuracy or 0.0, default=None)

    def frame(self, table: Literal["cells", "summary", "curves", "choosing"] = "cells") -> Any:
        """A table of the sweep as a pandas DataFrame, or as a dict of columns where there is no pandas.

        "cells" has every cell with its place, seed, state and numbers, as cells.csv; "summary" every place with its
        mean, half of the 95% interval over its seeds, and how many those are; "curves" the same by round; "choosing",
        where settings were chosen, what was tried.
        """
        grid = loaded_object("simulations.report.sweep.grid:Grid")(self)  # which is about what stands here
        tables = loaded_object("simulations.report.sweep._tables:sweep_tables")(grid)
        if table not in tables:
            raise FedprivError(f"table must be one of {', '.join(tables)}, got {table!r}")
        head, rows = tables[table]
        return data_frame([dict(zip(head, row, strict=True)) for row in rows])

    @cached_property
    def added_up(self) -> list[dict[str, Any]]:
        """What all cells of the sweep that were trained, trials too, come to: who looks at all pays that.

        A dict for each unit and adjacency, of its own cells alone, at the smallest δ of theirs.
        """
        found: dict[tuple[str, str], list[tuple[tuple[Event, ...], float]]] = {}
        for (unit, _, adjacency, delta), given in self._costed:
            found.setdefault((unit, adjacency), []).append((given, delta))
        told = []
        for (unit, adjacency), runs in found.items():
            delta = min(delta for _, delta in runs)
            epsilon = epsilon_of_all(Counter(given for given, _ in runs), delta)
            facts = {"cells": len(runs), "epsilon": epsilon, "delta": delta}
            told.append({**facts, "unit": unit, "adjacency": adjacency})
        return told

    @property
    def not_added(self) -> int:
        """How many cells were begun, trials too, that no ε of `added_up` counts.

        Those promise nothing, or what they gave away is not known here: of a class of one's own, or cut short.
        """
        return sum(cell.state != "missing" for cell in (*self.cells, *self.trials)) - len(self._costed)

    @cached_property
    def _costed(self) -> list[tuple[Promise, tuple[Event, ...]]]:
        """What cells, trials too, promise and what they gave away, of those of which both are known."""
        both = [(cell.ran.guarantee, cell.ran.given) for cell in self.trained if cell.ran]
        return [(promise, given) for promise, given in both if promise is not None and given is not None]

    @cached_property
    def ran(self) -> list[Ran]:
        """What the records of the sweep's done cells say, a run each."""
        return [cell.ran for cell in self.done if cell.ran]


def is_sweep(directory: str | Path) -> bool:
    """Whether a directory is a sweep's, and no run's: it has sweep.json."""
    return (Path(directory) / INDEX).is_file()


def read_sweep(directory: str | Path) -> Sweep:
    """Read the sweep of a directory for reports, however far it has come: its axes and what became of each cell."""
    place, path = Path(directory), Path(directory) / INDEX
    try:
        index = json.loads(path.read_text(encoding="utf-8"))
        form = index["format"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise FedprivError(f"{path}: not a sweep ({str(error).splitlines()[0][:100]})") from None
    if form != FORMAT:
        raise FedprivError(f"{path}: a sweep of format {form!r}, where this version reads {FORMAT}")
    try:
        axes, choosing = _axes(index["axes"]), index.get("choosing", {"axes": [], "cells": []})
        cells, trials = (tuple(_cell(each, axes, path) for each in part["cells"]) for part in (index, choosing))
        found = index["name"], index.get("about", ""), axes, tuple(index["seeds"]), cells
        chosen = _axes(choosing["axes"])
    except (KeyError, TypeError, AttributeError) as error:
        raise FedprivError(f"{path}: damaged ({type(error).__name__}: {error})") from None
    return Sweep(place, *found, study_text(place), chosen, trials)


def _axes(listed: Sequence[Mapping[str, Any]]) -> tuple[Axis, ...]:
    """The axes that a sweep's index lists, of what is varied or of what is chosen."""
    return tuple(Axis(str(axis["path"]), tuple(map(str, axis["values"]))) for axis in listed)


def _cell(each: Mapping[str, Any], axes: Sequence[Axis], index: Path) -> Cell:
    """A cell of a sweep's index, and what became of it: one whose settings are not chosen yet has no id."""
    own = {axis.path: str(each["place"][axis.path]) for axis in axes}
    for axis in axes:
        if own[axis.path] not in axis.values:
            at = f"{axis.path} = {own[axis.path]}"
            raise FedprivError(f"{index}: cell {each['id']} stands at {at}, which no axis has")
    seed, chosen = int(each["seed"]), {str(name): str(label) for name, label in each.get("chosen", {}).items()}
    if each["id"] is None:
        return Cell("", own, seed, "missing", "its settings are not chosen yet", None, chosen)
    return Cell(str(each["id"]), own, seed, *_told(index.parent / "cells" / str(each["id"])), chosen)


def _told(place: Path) -> tuple[State, str, Ran | None]:
    """What became of a cell, by its directory: its state, why, and what its records say if they can be read.

    Records that are whole count, whatever went wrong after their last line.
    """
    run = None
    if (place / "records.jsonl").is_file():
        try:
            run = Run(place, records.read_records(place / "records.jsonl"), {}, "", data_place(place))
        except FedprivError as error:
            return "failed", f"records.jsonl: {str(error).rpartition('records.jsonl')[2].lstrip(': ')}", None
    if run and run.records.end and run.records.end["why"] != "interrupted":
        if run.not_tried is not None:
            return "untried", run.not_tried, _ran(run)
        return "done", run.ended, _ran(run)
    if (place / "error.json").is_file():
        try:
            found = json.loads((place / "error.json").read_text(encoding="utf-8"))
            name = "" if found["asked_wrongly"] else f"{found['kind']}: "
            why = " ".join(f"{name}{found['message']}".split())
        except (OSError, ValueError, KeyError, TypeError):
            why = "for a reason that its error.json does not say"
        return "failed", why, _ran(run) if run else None
    if run:
        return "unfinished", f"after {len(run.rounds)} of {run.header['rounds']} rounds", _ran(run)
    return "missing", "not run yet", None


def _ran(run: Run) -> Ran:
    """What the records of a cell's run say, for a sweep's tables and figures.

    ε is ∞ of a run without noise, and not known where none was costed.
    """
    header, release = run.header, run.header["release"]
    measured = [(line["round"], line["accuracy"]) for line in run.rounds if line["accuracy"] is not None]
    curve = tuple((number, float(value)) for number, value in measured if isfinite(value))
    cost = (run.epsilon or {}) if run.private else {"lower": inf, "upper": inf}
    return Ran(
        accuracy=curve[-1][1] if curve else None, curve=curve, lower=cost.get("lower"), upper=cost.get("upper"),
        mu=run.spent("mu") if run.private else None, beta=run.spent("beta") if run.private else None,
        guarantee=(release["unit"], release["trust"], release["adjacency"], header["delta"]) if run.private else None,
        client_bytes=run.client_bytes, bytes_up=run.bytes_up,
        rejected=run.total("rejected"), failed=run.total("failed"), rounds=len(run.rounds),
        clients=header["clients"], byzantine=header["byzantine"], attack=kind_with_settings(header["attack"]),
        aggregation=kind_alone(header["aggregation"]), test_examples=header["test_examples"],
        backdoor=run.last("backdoor"), data=header.get("data"), where=run.where, given=events_given(run),
    )  # fmt: skip


def events_given(run: Run) -> tuple[Event, ...] | None:
    """What a cell's run gave away of its worst client; None where its records do not end, or name what is not here."""
    if run.records.end is None:  # more may have been asked than they tell
        return None
    try:
        return run.account.spent if run.account else ()
    except FedprivError:  # a mechanism of one's own that is not here, or records that do not say
        return None
