"""The cells of a sweep as jobs of a crew: each a run in a directory of its own below the sweep's."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from fedpriv.studies import file as study_file
from server.directory.outcome import fail_job
from simulations.sweep.directory import INDEX, place_of
from simulations.sweep.grid import Cell

if TYPE_CHECKING:
    from server.directory.made_on import Made


@dataclass(frozen=True)
class CellJob:
    """One cell. See `simulations.sweep.crew.Job`."""

    cell: Cell
    out: Path  # the sweep's directory
    data: dict[str, Made]  # by the study's words for them, the data of all cells, each read when a first cell needs it

    @property
    def id(self) -> str:
        """The id of the cell's study, by which the crew counts its tries and its failure is looked up."""
        return self.cell.id

    @property
    def title(self) -> str:
        """Where the cell stands in the grid, in words for the sweep's line of a failure."""
        return self.cell.title

    @property
    def alike(self) -> str:
        """Where the cell stands, whatever its seed: the crew takes such cells to last as long."""
        return repr(self.cell.place)

    def call(self) -> Callable[[], str | None]:
        """What a worker calls to run this cell; it refuses data that are no longer those the sweep began with."""
        from server.directory.made_on import data_here  # torch, which `--help` needs not
        from simulations.sweep._cell import run_cell

        study = self.cell.study
        if (name := repr(study.data)) not in self.data:
            self.data[name] = data_here(study)
        place = place_of(self.out, self.cell)
        return partial(run_cell, study_file.study_text(study), place, self.data[name], self.out / INDEX)

    def died(self, fault: str) -> None:
        """Write into the cell's directory that it failed, as every worker that tried it died."""
        fail_job(place_of(self.out, self.cell), RuntimeError(fault))


def cell_jobs(cells: Iterable[Cell], out: Path) -> list[CellJob]:
    """The jobs that a crew is given for a sweep's missing cells, all to be kept below `out`."""
    data: dict[str, Made] = {}
    return [CellJob(cell, out.absolute(), data) for cell in cells]
