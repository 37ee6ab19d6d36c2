"""What the cells of a table of [P] came to: means over seeds, what beats what, and why."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from statistics import fmean

from fedpriv import records
from fedpriv.studies import file as study_file
from fedpriv.studies.study import Study
from simulations.figures.intervals import Interval, paired_interval
from simulations.report.sweep.cells import Cell, Sweep, read_sweep
from simulations.reproduce.ptr._tables import CORRUPTION, RELEASE
from simulations.reproduce.ptr.tables_published import TABLES, PaperTable


@dataclass(frozen=True, eq=False)
class Found:
    """A table's directory, however far it has come."""

    directory: Path
    sweep: Sweep

    @staticmethod
    def of(directory: Path) -> Found:
        """Read a reproduced table's directory, a sweep's, as far as it has come."""
        return Found(directory, read_sweep(directory))

    def accuracies(self, row: str, epsilon: float, release: str) -> dict[int, float]:
        """The accuracies, by seed, of the done cells of a row, an ε and a release of the table."""
        return {cell.seed: cell.accuracy for cell in self._at(row, epsilon, release) if cell.accuracy is not None}

    def difference(self, row: str, epsilon: float, one: str, other: str) -> Interval | None:
        """How much more accurate one release is than another in a place, seed by seed; None where no seed has both."""
        return paired_interval(self.accuracies(row, epsilon, one), self.accuracies(row, epsilon, other))

    @property
    def table(self) -> PaperTable:
        """The table of [P] whose cells these are."""
        return TABLES[self.sweep.name]

    @cached_property
    def study(self) -> Study:
        """The study of one done cell of the table: what is asked of it, all cells share."""
        return study_file.read_study(str(self._place(self.sweep.done[0]) / "study.toml"))

    @property
    def seeds(self) -> int:
        """How many seeds of the table have a cell that is done."""
        return len({cell.seed for cell in self.sweep.done})

    @property
    def held_out(self) -> int:
        """How many held-out records the table's accuracies are measured on."""
        return max(ran.test_examples for ran in self.sweep.ran)

    @cached_property
    def dimension(self) -> int:
        """How many coordinates the model of the table's cells has, by a cell's records."""
        return int(self._header(self.sweep.done[0])["dimension"])

    def noise(self, epsilon: float, release: str) -> float | None:
        """The noise σ of a release as calibrated to ε, from a done cell's records; None where no cell is done."""
        cell = next((cell for cell in self.sweep.done if self._stands(cell, epsilon, release)), None)
        return None if cell is None else float(self._header(cell)["private_sum"]["noise"])

    def steps(self, epsilon: float, release: str) -> int | None:
        """How many steps a done cell of a release at ε took, by its records; None where no cell is done."""
        cell = next((cell for cell in self.sweep.done if self._stands(cell, epsilon, release)), None)
        return None if cell is None else len(records.read_records(self._place(cell) / "records.jsonl").rounds)

    def passed(self, row: str, epsilon: float, release: str) -> float | None:
        """The share of steps in a place whose test passed, read from how F moved; None if none is done.

        The first F is the study's, of which the first record says what became. F that stays is at its cap, or at 1.
        """
        shares = []
        for place in (self._place(cell) for cell in self._at(row, epsilon, release) if cell.state == "done"):
            lines = records.read_records(place / "records.jsonl").rounds
            study = study_file.read_study(str(place / "study.toml"))
            assert study.privacy.release is not None
            more = study.privacy.release.settings.get("after_pass") == "more"
            trimmed = [*study.first_settings, *(float(line["adapted"]["trimmed"]) for line in lines)]
            up = [after > before or after == before > 1 for before, after in pairwise(trimmed)]
            shares.append(fmean(each == more for each in up))
        return fmean(shares) if shares else None

    def _stands(self, cell: Cell, epsilon: float, release: str) -> bool:
        """Whether a cell of the table is of an ε and a release, whatever its row and seed."""
        return (cell.place[self.table.axis], cell.place[RELEASE]) == (str(epsilon), release)

    def _at(self, row: str, epsilon: float, release: str) -> list[Cell]:
        """The cells of the table, one a seed, at a row, an ε and a release."""
        return [c for c in self.sweep.cells if c.place[CORRUPTION] == row and self._stands(c, epsilon, release)]

    def _header(self, cell: Cell) -> records.Line:
        """The header of a cell's records.jsonl: what its run was."""
        return records.read_records(self._place(cell) / "records.jsonl").header

    def _place(self, cell: Cell) -> Path:
        """The directory of a cell's run below the table's."""
        return self.directory / "cells" / cell.id
