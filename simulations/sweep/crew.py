"""Cells side by side on Ray: a few workers, each of which is given another cell when it has done one.

A worker keeps what cells share: the data, and every ε it has worked out. Ray is started here, or is a cluster that is
there already, whose machines have fedpriv and see the sweep's directory.
"""

from __future__ import annotations

import os
import sys
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from itertools import islice
from math import inf
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple

from clients.place import MODULES, look_for_modules
from fedpriv import study_file
from fedpriv.errors import FedprivError, reason
from server.outcome import fail
from simulations.surroundings import cores, reach_ray
from simulations.sweep.directory import INDEX, place_of
from simulations.sweep.grid import Cell

if TYPE_CHECKING:
    from server.made_on import Made

TRIES = 2  # of a cell whose worker dies
AHEAD = 4  # cells a worker that one is chosen from
TICK = 1.0  # seconds without news after which whoever waits is told so


class Done(NamedTuple):
    """A cell that has ended, how long that took, and in a line why it failed if it did."""

    cell: Cell
    seconds: float
    fault: str | None


class Crew:
    """Ray, and at most so many workers: one a core, or as many as the cluster has, unless said. They load at once."""

    def __init__(self, size: int | None, address: str | None) -> None:
        self._mine = "ray" not in sys.modules or not sys.modules["ray"].is_initialized()
        if self._mine:
            self._end = reach_ray(size or cores(), address)
        import ray  # its environment must be set before

        self._ray: Any = ray
        self._class: Any = ray.remote(num_cpus=1, max_restarts=0, max_task_retries=0)(Hand)
        self.size: int = size or max(1, int(self._ray.cluster_resources().get("CPU", 1)))
        self._left, self._tries = deque[Cell](), Counter[str]()
        self._took: dict[str, float] = {}  # seconds of the last cell in a place, whatever its seed
        self._busy: dict[Any, Busy] = {}  # by what it will tell
        self._made: dict[str, Made] = {}  # the data of cells, as they are when the first of them is given away
        for _ in range(self.size):
            self._hire()

    def work(self, cells: Sequence[Cell], out: Path) -> Iterator[Done | None]:
        """Each cell when it has ended, in any order; None now and then, so that whoever waits can say so."""
        self._left.extend(cells)
        while self._busy:
            told, _ = self._ray.wait(list(self._busy), timeout=TICK)
            yield from (self._heard(each, out.absolute()) for each in told or [None])

    def close(self) -> None:
        """Nobody works on, and Ray ends where it was started here."""
        if self._mine:
            self._end()
            return
        for hand, _, _ in self._busy.values():
            self._ray.kill(hand)

    def _hire(self) -> None:
        """One more worker; cells are given to it when it is there, for a cluster may have no room yet."""
        hand = self._class.remote(os.getcwd(), os.environ.get(MODULES))
        self._busy[hand.ready.remote()] = Busy(hand, None, monotonic())

    def _heard(self, told: Any, out: Path) -> Done | None:
        """What has become of a cell, if anything; whoever has told it is given another."""
        if told is None:
            return None
        hand, cell, since = self._busy.pop(told)
        try:
            fault = self._ray.get(told)
            self._give(hand, out)
        except self._ray.exceptions.RayTaskError as error:
            raise FedprivError(f"Ray's workers cannot begin: {reason(error.cause)}") from None
        except self._ray.exceptions.RayError as error:
            if cell is None:
                raise FedprivError(f"Ray's workers cannot begin: {reason(error)}") from None
            self._hire()
            if self._tries[cell.id] < TRIES:
                self._left.appendleft(cell)
                return None
            fault = f"its worker died, {TRIES} times: {reason(error)}"
            fail(place_of(out, cell), RuntimeError(fault))
        if cell is None:
            return None
        self._took[_place(cell)] = seconds = monotonic() - since
        return Done(cell, seconds, fault)

    def _next(self) -> Cell:
        """Of the next few cells the one expected to take longest, so that none ends long after the others."""
        near = islice(self._left, AHEAD * self.size)
        cell = max(near, key=lambda cell: self._took.get(_place(cell), inf))
        self._left.remove(cell)
        return cell

    def _give(self, hand: Any, out: Path) -> None:
        if not self._left:
            self._ray.kill(hand)
            return
        cell = self._next()
        self._tries[cell.id] += 1
        told = hand.run.remote(study_file.text(cell.study), str(out), str(place_of(out, cell)), self._data(cell))
        self._busy[told] = Busy(hand, cell, monotonic())

    def _data(self, cell: Cell) -> Made:
        from server.made_on import here  # torch, which `--help` needs not

        if (name := repr(cell.study.data)) not in self._made:
            self._made[name] = here(cell.study)
        return self._made[name]


def _place(cell: Cell) -> str:
    return repr(cell.place)


class Busy(NamedTuple):
    """A worker, the cell it has (none while it loads), and since when."""

    hand: Any
    cell: Cell | None
    since: float


class Hand:
    """A worker: one process of Ray's, in the directory that the sweep was started from."""

    def __init__(self, home: str, modules: str | None) -> None:
        self._home, self._modules = home, modules

    def ready(self) -> None:
        """Load what cells need, torch above all."""
        if Path(self._home).is_dir():  # where it is not, `run` will say so
            os.chdir(self._home)
        if self._modules:
            look_for_modules(Path(self._modules))
        import simulations.sweep.cell  # noqa: F401

    def run(self, study: str, out: str, place: str, made: Made) -> str | None:
        """One cell, of that data; in a line why it failed, if it did."""
        from simulations.sweep.cell import run_cell

        if not (Path(out) / INDEX).is_file():
            raise FedprivError(f"{out} is not there on every machine: --out must be on a disk that all of them share")
        return run_cell(study, Path(place), made)
