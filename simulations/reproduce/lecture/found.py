"""What the trainings of the lecture's figure came to: accuracies over seeds, and ε by each accountant."""

from __future__ import annotations

import platform
from dataclasses import dataclass, replace
from functools import cached_property
from math import sqrt
from pathlib import Path
from statistics import fmean, stdev

from scipy.special import stdtrit

from fedpriv import records
from fedpriv.accounting.account import Account
from fedpriv.accounting.event import event_of
from fedpriv.accounting.published.comparisons import published_values
from simulations.report.sweep.cells import Sweep, read_sweep
from simulations.reproduce.lecture.methods import DELTA, POINT, POINTS, point_label

MOMENTS = "[L] moments accountant (Abadi et al. 2016)"


@dataclass(frozen=True)
class Spot:
    """A way to train at an ε: how accurate it is over seeds, and what it costs."""

    method: str
    epsilon: float  # that was asked for
    accuracies: tuple[float, ...]  # a seed each
    upper: float  # ε, certified
    moments: float | None  # ε by the moments accountant; None where its noise changes from step to step

    @property
    def mean(self) -> float:
        """The mean accuracy over the seeds of a way to train."""
        return fmean(self.accuracies)

    @property
    def half(self) -> float | None:
        """Half of the 95% interval about the mean accuracy, by Student's t; None of one seed.

        >>> round(Spot("SGD", 1.0, (0.5, 0.52, 0.54), 1.0, None).half, 3)
        0.05
        """
        n = len(self.accuracies)
        return float(stdtrit(n - 1, 0.975)) * stdev(self.accuracies) / sqrt(n) if n > 1 else None


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
                accuracies = tuple(each.accuracy for each in ran if each.accuracy is not None)
                header = records.read_records(self.directory / "cells" / cells[0].id / "records.jsonl").header
                found[method, epsilon] = Spot(
                    method, epsilon, accuracies, max(each.upper for each in ran if each.upper is not None),
                    _moments(header),
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
