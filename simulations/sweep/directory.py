"""A sweep's directory: the study with its grid, an index of the cells, and a run's directory for each of them."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fedpriv import records
from fedpriv._base.files import replace_file
from fedpriv._base.tables import flat_table, toml_text
from fedpriv.errors import FedprivError
from fedpriv.studies import identity
from server.directory import kept_alone
from server.directory.outcome import ERROR
from server.progress.words import NOT_TRIED
from simulations.sweep._axes import Axis
from simulations.sweep.grid import SEED, Cell, Choices, Grid, Labels

STUDY = "study.toml"  # the study with its grid
INDEX = "sweep.json"  # which cells there are, and where each stands
CELLS = "cells"  # the directory of theirs
FORMAT = 1  # of the index
NOTHING: Choices = {}  # is chosen


def check_sweep_directory(out: Path, grid: Grid) -> None:
    """Refuse a directory for a sweep that holds anything else, another study, or ids of another format.

    The same sweep with fewer seeds is no other one: the cells that are there stay.
    """
    if not (out / STUDY).is_file():
        if out.exists() and (not out.is_dir() or any(not file.name.startswith(".") for file in out.iterdir())):
            raise FedprivError(f"{out}: is there already and holds no sweep: --out names another place")
        return
    try:
        index = json.loads((out / INDEX).read_text(encoding="utf-8"))
        found, seeds = index.get("study_format", 0), set(index.get("seeds", ()))
    except FileNotFoundError:  # where a kill left no index, there are no cells
        found, seeds = identity.FORMAT, set()
    except (OSError, ValueError, AttributeError, TypeError) as error:
        raise FedprivError(f"{out / INDEX}: cannot be read ({error})") from None
    if found != identity.FORMAT:
        raise FedprivError(
            f"{out}: a sweep of format {found}, where this version goes on with format {identity.FORMAT}: fedpriv "
            "report reads it; --out names another place"
        )
    now = toml_text(grid.table)
    try:
        was = (out / STUDY).read_text(encoding="utf-8")
        old, new = ({}, {}) if was == now else (flat_table(tomllib.loads(was)), flat_table(tomllib.loads(now)))
    except (OSError, ValueError) as error:
        raise FedprivError(f"{out / STUDY}: cannot be read ({error})") from None
    more = {f"sweep.{SEED}"} if seeds <= set(grid.seeds) else set[str]()  # seeds may be added
    if paths := [path for path in {**old, **new} if old.get(path) != new.get(path) and path not in more]:
        told = [f"{path} is {_short(old.get(path))} there, {_short(new.get(path))} here" for path in paths]
        shown = "; ".join(told[:4]) + ("; …" if len(told) > 4 else "")
        raise FedprivError(f"{out}: holds another study: {shown}. --out names another place")


@contextmanager
def opened_sweep(out: Path, grid: Grid, choices: Choices = NOTHING) -> Iterator[None]:
    """While it lasts, the directory is this sweep's alone: begun with study and index, or gone on with."""
    check_sweep_directory(out, grid)
    out.mkdir(parents=True, exist_ok=True)
    with kept_alone(out):
        replace_file(out / STUDY, toml_text(grid.table).encode(), mode=0o644)
        write_index(out, grid, choices)
        (out / CELLS).mkdir(exist_ok=True)
        yield


def write_index(out: Path, grid: Grid, choices: Choices) -> None:
    """Write a sweep's file of its cells and where each stands; one has no id before a value is chosen at its place."""
    cells = dict[tuple[Labels, int], Any]()
    for cell in grid.cells:
        chosen = choices.get(cell.spot, ()) == cell.value
        if chosen or (cell.spot, cell.study.run.seed) not in cells:
            cells[cell.spot, cell.study.run.seed] = _line(cell) if chosen else _line(cell) | {"id": None, "chosen": {}}
    index = {
        "format": FORMAT, "study_format": identity.FORMAT, "name": grid.name, "about": grid.cells[0].study.about,
        "axes": _told(grid.axes), "seeds": grid.seeds, "cells": list(cells.values()),
        **({} if grid.choosing is None else {"choosing": {
            "axes": _told(grid.chosen), "seeds": grid.choosing.seeds, "cells": list(map(_line, grid.choosing.cells)),
        }}),
    }  # fmt: skip
    replace_file(out / INDEX, (json.dumps(index, indent=1, ensure_ascii=False) + "\n").encode(), mode=0o644)


def _line(cell: Cell) -> dict[str, Any]:
    """A cell as a sweep's index has it: its id, and where it stands."""
    chosen = {"chosen": dict(cell.chosen)} if cell.chosen else {}
    return {"id": cell.id, "place": dict(cell.place), "seed": cell.study.run.seed, **chosen}


def _told(axes: Sequence[Axis]) -> list[dict[str, Any]]:
    """Axes of a sweep as its index has them: paths, and the labels of their values."""
    return [{"path": axis.path, "values": [choice.label for choice in axis.choices]} for axis in axes]


def check_data(out: Path, cells: Sequence[Cell]) -> None:
    """Refuse to add cells to a sweep whose cells so far were made on other data: one table holds all."""
    from server.directory.made_on import check_same, data_told  # torch, only where it is needed

    for cell in sorted(cells, key=lambda cell: repr(cell.study.data)):  # each set is read once
        place = place_of(out, cell)
        if (was := data_told(place)) is not None:
            check_same(f"{place} ({cell.title})", was, cell.study)


def is_complete(out: Path) -> bool:
    """Whether all cells that a sweep directory's index names have come to their end, so that no worker is started."""
    try:
        index = json.loads((out / INDEX).read_text(encoding="utf-8"))
        cells = [*index["cells"], *index.get("choosing", {}).get("cells", ())]
        return all(cell["id"] is not None and is_finished(out / CELLS / cell["id"]) for cell in cells)
    except (OSError, ValueError, KeyError, TypeError):
        return False


def place_of(out: Path, cell: Cell) -> Path:
    """The directory of a cell's run below its sweep's."""
    return out / CELLS / cell.id


def is_finished(place: Path) -> bool:
    """Whether a cell's run is done and whole, by its directory; else, or if no attack was tried, it runs again."""
    try:
        result = json.loads((place / "result.json").read_text(encoding="utf-8"))
        ended = result["why"] != "interrupted" and not (place / ERROR).exists() and untried_attack(place) is None
        return ended and records.read_records(place / "records.jsonl").end is not None
    except (OSError, ValueError, KeyError, TypeError, FedprivError):
        return False


def untried_attack(place: Path) -> str | None:
    """Why the attack of a cell that has ended was not tried, in a line; None where it was, or nobody attacks."""
    try:
        why = json.loads((place / "result.json").read_text(encoding="utf-8")).get("not_tried")
    except (OSError, ValueError, AttributeError):
        return None
    return None if why is None else f"the attack was {NOT_TRIED}: {why}"


def _short(value: Any) -> str:
    """A setting's value in words, cut to 80 letters, for the error that a directory holds another sweep."""
    words = "not given" if value is None else toml_text({"v": [value]})[5:-2]
    return words if len(words) <= 80 else words[:79] + "…"
