"""What the trainings of the lecture's figure came to: accuracies over seeds, and ε by each accountant."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from fedpriv import records
from fedpriv.accounting.account import Account
from fedpriv.accounting.event import event_of
from fedpriv.accounting.published.comparisons import published_values
from simulations.figures.intervals import Interval, interval_of
from simulations.report.sweep.cells import Sweep, read_sweep
from simulations.reproduce.lecture.methods import DELTA, POINT, POINTS, point_label

MOMENTS = "[L] moments accountant (Abadi et al. 2016)"


@dataclass(frozen=True)
class Spot:
    """A way to train at an ε: how accurate it is over seeds, and what it costs."""

    method: str
    epsilon: float  # that was asked for
    upper: float  # ε, certified
    moments: float | None  # ε by the moments accountant; None where its noise changes from step to step

    by_seed: Mapping[int, float]  # accuracy

    @property
    def kept(self) -> Interval:
        """The mean accuracy over the seeds of a way to train, and the interval about it.

        >>> round(Spot("SGD", 1.0, 1.0, None, {1: 0.5, 2: 0.52, 3: 0.54}).kept.half, 3)
        0.05
        """
        found = interval_of(list(self.by_seed.values()))
        assert found is not None  # a spot has a seed
        return found


@dataclass(frozen=True, eq=False)
class Found:
    """The directory of the lecture's figure, however far it has come."""

    directory: Path
    sweep: Sweep

    @staticmethod
    def of(directory: Path) -> Found:
        """Read the directory of the lecture's figure, which is a sweep's, as far as it has come."""
        return Found(directory, read_sweep(directory))

    @cached_property
    def spots(self) -> dict[tuple[str, float], Spot]:
        """What is done of the lecture's figure, by way to train and ε."""
        found = {}
        for method, epsilon in POINTS:
            cells = [each for each in self.sweep.done if each.place[POINT] == point_label(method, epsilon)]
            if ran := [each.ran for each in cells if each.ran is not None and each.ran.accuracy is not None]:
                header = records.read_records(self.directory / "cells" / cells[0].id / "records.jsonl").header
                found[method, epsilon] = Spot(
                    method, epsilon, max(each.upper for each in ran if each.upper is not None), _moments(header),
                    {cell.seed: cell.accuracy for cell in cells if cell.accuracy is not None},
                )  # fmt: skip
        return found

    @property
    def data(self) -> str:
        """What the trainings of the lecture's figure learned from, in words."""
        own = self.sweep.done[0].ran
        return "images" if own is None or own.test_examples != 360 else "scikit-learn's digits"

    @property
    def machine(self) -> str:
        """The machine that the page of the lecture's figure is written on, in words."""
        return f"{platform.machine()}, {platform.system()}"


def _moments(header: records.Line) -> float | None:
    """The ε that the moments accountant gives a run, by its header; None where its noise is not one of all rounds."""
    if "in_turn" in header:
        return None
    event = event_of(header["release"])
    values = published_values(Account((replace(event, rounds=event.rounds * header["rounds"]),)), DELTA)
    return float(values[MOMENTS]["epsilon"]) if MOMENTS in values else None
