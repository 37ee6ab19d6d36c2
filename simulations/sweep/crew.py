"""Cells side by side on Ray: a few workers, each of which is given another cell when it has done one.

A worker keeps what cells share: the data, and every ε it has worked out. Ray is started here, or is a cluster that is
there already, whose machines have fedpriv and see the sweep's directory.
"""

from __future__ import annotations

import os
import sys
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple

from clients.place import MODULES, look_for_modules
from fedpriv import study_file
from fedpriv.errors import FedprivError
from server.outcome import fail
from simulations.surroundings import cores, start_ray
from simulations.sweep.directory import INDEX, place_of
from simulations.sweep.grid import Cell

TRIES = 2  # of a cell whose worker dies
TICK = 1.0  # seconds without news after which whoever waits is told so


class Done(NamedTuple):
    """A cell that has ended, how long that took, and in a line why it failed if it did."""

    cell: Cell
    seconds: float
    fault: str | None


class Crew:
    """Ray, and how many workers it may have: one a core, or as many as the cluster has, unless said."""

    def __init__(self, size: int | None, address: str | None) -> None:
        self._mine = "ray" not in sys.modules or not sys.modules["ray"].is_initialized()
        if self._mine:
            _start(size or cores(), address)
        import ray  # its environment must be set before

        self.ray: Any = ray
        self.size: int = size or max(1, int(self.ray.cluster_resources().get("CPU", 1)))

    def work(self, cells: Sequence[Cell], out: Path) -> Iterator[Done | None]:
        """Each cell when it has ended, in any order; None now and then, so that whoever waits can say so."""
        shift = Shift(self.ray, cells, out.absolute())
        try:
            for _ in range(min(self.size, len(cells))):
                shift.hire()
            while shift.busy:
                told, _ = self.ray.wait(list(shift.busy), timeout=TICK)
                yield from map(shift.heard, told or [None])
        finally:
            shift.end()

    def close(self) -> None:
        """End Ray where it was started here."""
        if self._mine:
            self.ray.shutdown()


class Shift:
    """The work on some cells: what is left of it, and who is busy with what."""

    def __init__(self, ray: Any, cells: Sequence[Cell], out: Path) -> None:
        self._ray, self._left, self._tries, self._out = ray, deque(cells), Counter[str](), out
        self._class = ray.remote(num_cpus=1, max_restarts=0, max_task_retries=0)(Hand)
        self.busy: dict[Any, tuple[Any, Cell | None, float]] = {}  # who, with what, since when: by what they will tell

    def hire(self) -> None:
        """One more worker; cells are given to it when it is there, for a cluster may have no room yet."""
        hand = self._class.remote(os.getcwd(), os.environ.get(MODULES))
        self.busy[hand.ready.remote(str(self._out))] = (hand, None, monotonic())

    def heard(self, told: Any) -> Done | None:
        """What has become of a cell, if anything; whoever has told it is given another."""
        if told is None:
            return None
        hand, cell, since = self.busy.pop(told)
        try:
            fault = self._ray.get(told)
            self._give(hand)
        except self._ray.exceptions.RayTaskError as error:
            raise FedprivError(f"Ray's workers cannot begin: {error.cause}") from None
        except self._ray.exceptions.RayError as error:
            self.hire()
            if cell is None:
                raise FedprivError(f"Ray's workers cannot begin: {_line(error)}") from None
            if self._tries[cell.id] < TRIES:
                self._left.appendleft(cell)
                return None
            fault = f"its worker died, {TRIES} times: {_line(error)}"
            fail(place_of(self._out, cell), RuntimeError(fault))
        return Done(cell, monotonic() - since, fault) if cell else None

    def _give(self, hand: Any) -> None:
        if not self._left:
            self._ray.kill(hand)
            return
        cell = self._left.popleft()
        self._tries[cell.id] += 1
        told = hand.run.remote(study_file.text(cell.study), str(place_of(self._out, cell)))
        self.busy[told] = (hand, cell, monotonic())

    def end(self) -> None:
        """Nobody works on."""
        for hand, _, _ in self.busy.values():
            self._ray.kill(hand)


class Hand:
    """A worker: one process of Ray's, in the directory that the sweep was started from."""

    def __init__(self, home: str, modules: str | None) -> None:
        self._home, self._modules = home, modules

    def ready(self, out: str) -> None:
        """Load what cells need, torch above all; refuse where this machine cannot do what is asked."""
        if not (Path(out) / INDEX).is_file() or not Path(self._home).is_dir():
            raise FedprivError(f"{out} is not there on every machine: --out must be on a disk that all of them share")
        os.chdir(self._home)
        if self._modules:
            look_for_modules(Path(self._modules))
        import simulations.sweep.cell  # noqa: F401

    def run(self, study: str, place: str) -> str | None:
        """One cell; in a line why it failed, if it did."""
        from simulations.sweep.cell import run_cell

        return run_cell(study, Path(place))


def _start(size: int, address: str | None) -> None:
    try:
        start_ray(size, address or "local")
    except (OSError, RuntimeError, ValueError) as error:
        raise FedprivError(f"Ray {f'at {address} ' if address else ''}cannot be reached: {_line(error)}") from None


def _line(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:200]
