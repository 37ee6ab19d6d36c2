"""The grid that a study's [sweep] table spans, the only place where a list means one: every cell is a whole study."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from typing import Any

from fedpriv._base.tables import Table, flat_table, native_values
from fedpriv.errors import FedprivError
from fedpriv.studies.file import Changes, change_settings, changes_by_path, content_of, study_of, study_tables
from fedpriv.studies.study import Study
from simulations.sweep._axes import CHOSEN, SEED, Axis, Choice, axes_of, chosen_axes, skips

__all__ = ["SEED", "Cell", "Choices", "Grid", "Labels", "grid_of"]

SHOWN = 20  # different reasons why cells cannot be run

Labels = tuple[str, ...]
Choices = Mapping[Labels, Labels]  # what is chosen at a place: the labels of the value, by the place's
Bad = dict[str, list[Mapping[str, str]]]  # why cells cannot be run, and where they stand


@dataclass(frozen=True)
class Cell:
    """One study of the grid, and where it stands: the label of its value on every axis but the seed's."""

    place: Mapping[str, str]
    study: Study
    chosen: Mapping[str, str] = field(default_factory=dict)  # the label of each setting that is chosen, not varied

    @property
    def id(self) -> str:
        """The id of the cell's study, in hex: the name of its directory, which no other study shares."""
        return self.study.id.hex()

    @property
    def where(self) -> Mapping[str, str]:
        """The label of the cell's value on every axis of the sweep, the seed's too, by path."""
        return {**self.place, **self.chosen, SEED: str(self.study.run.seed)}

    @property
    def spot(self) -> Labels:
        """The labels of the cell's place in the sweep, by which what is chosen there is found."""
        return tuple(self.place.values())

    @property
    def value(self) -> Labels:
        """The labels of what the cell has of the sweep's chosen settings; none where nothing is chosen."""
        return tuple(self.chosen.values())

    @property
    def title(self) -> str:
        """Where the cell stands in the sweep, seed included, in words for errors and progress."""
        return _words(self.where)


@dataclass(frozen=True)
class Grid:
    """All cells; one seed's stand together, so that a whole grid is there long before all of them are."""

    file: str  # what errors call the study
    table: Table  # the study as it is written, its [sweep] flat
    axes: tuple[Axis, ...]  # without the seed's
    cells: tuple[Cell, ...]
    skipped: int = 0  # combinations left out, for they cannot be
    chosen: tuple[Axis, ...] = ()  # settings of which each place is given one value: until then cells have all of them
    choosing: Grid | None = None  # the cells by which that is done: every value, other seeds, records set aside

    @property
    def name(self) -> str:
        """The name of the study whose [sweep] table spans this grid."""
        return self.cells[0].study.name

    @property
    def seeds(self) -> list[int]:
        """The seeds of the grid, each once, in the order of its cells."""
        return list(dict.fromkeys(cell.study.run.seed for cell in self.cells))

    def each(self, act: Callable[[Study], Study]) -> Grid:
        """The grid with every cell's study put through `act`, such as calibration; all it fails for are named."""
        choosing = self.choosing and self.choosing.each(act)
        return replace(self.of((cell.where, partial(act, cell.study)) for cell in self.cells), choosing=choosing)

    @property
    def runs(self) -> int:
        """How many cells the grid has once a value is chosen at each place: those that a report shows."""
        return len({(cell.spot, cell.study.run.seed) for cell in self.cells})

    def of(self, candidates: Iterable[tuple[Mapping[str, str], Callable[[], Study]]]) -> Grid:
        """The grid with these cells: where each stands, and what makes its study or says in a line why it cannot be."""
        cells, bad, chosen = list[Cell](), Bad(), {axis.path for axis in self.chosen}
        for where, make in candidates:
            try:
                place = {path: label for path, label in where.items() if path not in (SEED, *chosen)}
                cells.append(Cell(place, make(), {path: where[path] for path in where if path in chosen}))
            except FedprivError as error:
                bad.setdefault(str(error), []).append(where)
        if bad and not (skips(self.table["sweep"]) and cells):
            lines = [
                f"{self.file}: cell {_words(stand[0])}{f' (and {len(stand) - 1:,} more)' if stand[1:] else ''}: {why}"
                for why, stand in bad.items()
            ]
            more = [f"and {len(lines) - SHOWN} more reasons"] * (len(lines) > SHOWN)
            raise FedprivError("\n".join(lines[:SHOWN] + more))
        known: dict[str, Cell] = {}
        for cell in cells:
            if (same := known.setdefault(cell.id, cell)) is not cell:
                raise FedprivError(f"{self.file}: two cells are the same study: {same.title}; and {cell.title}")
        used = {place for cell in cells for place in cell.where.items()}
        for reason, wheres in bad.items():  # of what is skipped, no value may be left without any cell
            if lost := [place for where in wheres for place in where.items() if place not in used]:
                raise FedprivError(f"{self.file}: no cell is possible with {_words(dict(lost[:1]))}: {reason}")
        return replace(self, cells=tuple(cells), skipped=self.skipped + sum(map(len, bad.values())))


def grid_of(
    source: str | Study | Mapping[str, Any],
    overrides: Changes = (),
    axes_given: Mapping[str, Any] | None = None,  # in the place of the study's own [sweep] table
) -> Grid:
    """The grid of a study's file, or of a study that ships, after --set; each cell read strictly, none calibrated."""
    overrides = overrides if isinstance(overrides, Mapping) else list(overrides)
    content: str | Mapping[str, Any]
    if isinstance(source, str):
        content, file = content_of(source)
    else:
        content, file = (source.table(), source.name) if isinstance(source, Study) else (source, "study")
    table = study_tables(content, name=file, overrides=overrides)
    if axes_given is not None:
        table["sweep"] = flat_table(native_values(axes_given))
    try:
        axes = axes_of(table.get("sweep"))
        changed = [path for path, _ in changes_by_path(overrides)]
        chosen, seeds = chosen_axes(table["sweep"], axes)
        for path, axis in product(changed, (*axes, *chosen)):  # what the grid would change back
            if any(f"{path}.".startswith(f"{own}.") for own in axis.paths):
                said = f"{CHOSEN * (axis in chosen)}{axis.path}"
                raise FedprivError(f"--set {path}: the grid sets it; --set 'sweep.{said}=[…]' changes the grid")
        skips(table["sweep"])
    except FedprivError as error:
        raise FedprivError(f"{file}: {error}") from None
    base = {key: value for key, value in table.items() if key != "sweep"}
    axes.sort(key=lambda axis: axis.path != SEED)  # the seed's is the slowest
    others = tuple(axis for axis in axes if axis.path != SEED)
    empty = Grid(file, table, others, (), chosen=tuple(chosen))
    grid = empty.of(_combined(base, (*axes, *chosen)))
    if not chosen:
        return grid
    if both := set(seeds) & set(grid.seeds):
        raise FedprivError(f"{file}: sweep: chosen.{SEED} has {min(both)}, which is a seed of the sweep's own")
    by = Axis(SEED, tuple(Choice(str(seed), {SEED: seed}) for seed in seeds))
    tried = _combined(base, (by, *others, *chosen))
    return replace(grid, choosing=empty.of((where, partial(_measured_aside, make)) for where, make in tried))


def _combined(base: Table, axes: Sequence[Axis]) -> Iterator[tuple[Mapping[str, str], Callable[[], Study]]]:
    """Every combination of the axes' choices: where it stands, the seed last, and what makes its study."""
    for spot in product(*(axis.choices for axis in axes)):
        labels = [(axis.path, choice.label) for axis, choice in zip(axes, spot, strict=True)]
        yield dict(sorted(labels, key=lambda label: label[0] == SEED)), partial(_study, base, spot)


def _measured_aside(make: Callable[[], Study]) -> Study:
    """A cell's study as it is tried to choose its settings: accuracy is of records set aside, never of the test's."""
    study = make()
    if not study.data.settings.get("aside"):
        raise FedprivError("[sweep.chosen] chooses by training records set aside: data.aside = 200 or so says how many")
    if "measure" in study.data.settings:
        raise FedprivError("data.measure is the choosing's to say: leave it out")
    return replace(study, data=study.data.with_settings({**study.data.settings, "measure": "aside"}))


def _study(base: Table, spot: Iterable[Choice]) -> Study:
    """The study of one combination of the grid: the base's tables, changed by one choice of every axis."""
    table, settings = deepcopy(base), {path: value for choice in spot for path, value in choice.settings.items()}
    change_settings(table, deepcopy(settings).items())
    return study_of(table)


def _words(place: Mapping[str, str]) -> str:
    """A place in the grid in words, "path = label" for each axis."""
    return ", ".join(f"{path} = {label}" for path, label in place.items())
