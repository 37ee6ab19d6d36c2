"""What the cells of a table of [P] came to: means over seeds, what beats what, and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from math import sqrt
from pathlib import Path
from statistics import fmean, stdev

from scipy.special import ndtri, stdtrit

from fedpriv import records
from fedpriv.studies import file as study_file
from fedpriv.studies.study import Study
from simulations.report.sweep.cells import Cell, Sweep, read_sweep
from simulations.reproduce.ptr._tables import CORRUPTION, EPSILON, RELEASE
from simulations.reproduce.ptr.tables_published import PTR

CONFIDENCE = 0.975  # on either side: a difference is told from none at 95%


@dataclass(frozen=True)
class Difference:
    """How much more accurate one release is than another in a place, over the seeds that both have."""

    mean: float  # a share
    error: float  # standard error
    seeds: int  # that both have

    @property
    def verdict(self) -> int:
        """1 where it is above, −1 where it is below, 0 where neither can be told: Student's t over the seeds.

        >>> Difference(0.05, 0.02, 10).verdict, Difference(0.05, 0.02, 3).verdict
        (1, 0)
        """
        enough = stdtrit(self.seeds - 1, CONFIDENCE) if self.seeds > 1 else ndtri(CONFIDENCE)
        return 0 if abs(self.mean) <= enough * self.error else (1 if self.mean > 0 else -1)


@dataclass(frozen=True, eq=False)
class Found:
    """A table's directory, however far it has come."""

    directory: Path
    sweep: Sweep

    @staticmethod
    def of(directory: Path) -> Found:
        """The directory as it is now."""
        return Found(directory, read_sweep(directory))

    def accuracies(self, row: str, epsilon: float, release: str) -> dict[int, float]:
        """Accuracy by seed, of the cells that are done."""
        return {cell.seed: cell.accuracy for cell in self._at(row, epsilon, release) if cell.accuracy is not None}

    def difference(self, row: str, epsilon: float, one: str, other: str) -> Difference | None:
        """One release less another, seed by seed; None where no seed has both.

        The error of one seed alone is that of two samples of what is held out.
        """
        a, b = (self.accuracies(row, epsilon, release) for release in (one, other))
        each = [a[seed] - b[seed] for seed in a if seed in b]
        if not each:
            return None
        if len(each) > 1:
            return Difference(fmean(each), stdev(each) / sqrt(len(each)), len(each))
        (seed,) = (seed for seed in a if seed in b)
        error = sqrt(sum(accuracy * (1 - accuracy) for accuracy in (a[seed], b[seed])) / self.held_out)
        return Difference(each[0], error, 1)

    @cached_property
    def study(self) -> Study:
        """One of the cells' studies: what they share is shared by all."""
        return study_file.read_study(str(self._place(self.sweep.done[0]) / "study.toml"))

    @property
    def seeds(self) -> int:
        """How many seeds have a cell that is done."""
        return len({cell.seed for cell in self.sweep.done})

    @property
    def held_out(self) -> int:
        """Records that accuracy is measured on."""
        return max(ran.test_examples for ran in self.sweep.ran)

    @cached_property
    def dimension(self) -> int:
        """Coordinates of the model."""
        return int(self._header(self.sweep.done[0])["dimension"])

    def noise(self, epsilon: float, release: str) -> float | None:
        """σ, as calibrated to ε; None where no cell is done."""
        for cell in self.sweep.done:
            if (cell.place[EPSILON], cell.place[RELEASE]) == (str(epsilon), release):
                return float(self._header(cell)["private_sum"]["noise"])
        return None

    def passed(self, row: str, epsilon: float) -> float | None:
        """The share of the steps in which the test passed, read from F: it falls after a test that passes, else not.

        The first F is the study's, of which the first record says what became. F cannot stay where it was but at 1.
        """
        shares = []
        for place in (self._place(cell) for cell in self._at(row, epsilon, PTR) if cell.state == "done"):
            lines = records.read_records(place / "records.jsonl").rounds
            study = study_file.read_study(str(place / "study.toml"))
            trimmed = [*study.first_settings, *(float(line["adapted"]["trimmed"]) for line in lines)]
            shares.append(fmean(after < before or after == 1 for before, after in pairwise(trimmed)))
        return fmean(shares) if shares else None

    def _at(self, row: str, epsilon: float, release: str) -> list[Cell]:
        place = {CORRUPTION: row, EPSILON: str(epsilon), RELEASE: release}
        return [cell for cell in self.sweep.cells if cell.place == place]

    def _header(self, cell: Cell) -> records.Line:
        return records.read_records(self._place(cell) / "records.jsonl").header

    def _place(self, cell: Cell) -> Path:
        return self.directory / "cells" / cell.id


def mean_of(accuracies: Sequence[float]) -> tuple[float, float | None]:
    """The mean, and the standard deviation of more than one.

    >>> mean_of([0.5, 0.75]), mean_of([0.5])
    ((0.625, 0.1767766952966369), (0.5, None))
    """
    return fmean(accuracies), stdev(accuracies) if len(accuracies) > 1 else None
