"""Corrupted records on their way into a batch: their data, in a copy, or their gradients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from clients.data.counter_hash import hashed_words
from clients.data.pool import Pool
from clients.data.splits import key_of
from clients.models.gradients import Net
from fedpriv._base.arrays import Numbers, Rows, Vector
from fedpriv.attacks import Acts, View
from fedpriv.errors import FedprivError
from fedpriv.randomness.streams import stream
from fedpriv.studies.plan import Plan
from fedpriv.studies.study import Study


class ActsOnData(Protocol):
    """An attack or a corruption that changes records before anything is computed from them."""

    def on_data(
        self, x: Rows, y: Numbers, classes: int, generators: Sequence[Generator]
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """The attackers', or corrupted, records as changed: features (attackers, batch, …) and labels."""


class Corrupting:
    """The corruption of a study; of a study without, nothing is struck."""

    def __init__(self, plan: Plan, classes: int) -> None:
        self._plan, self._classes, self._corruption = plan, classes, plan.corruption
        self._seed = plan.study.run.seed
        self._key = key_of(stream(self._seed, "corruption"))

    def struck(self, numbers: Numbers) -> NDArray[np.bool_]:
        """Which of the study's records of those numbers are corrupted: a share of all, always the same ones."""
        if self._corruption is None:
            return np.zeros(numbers.shape, bool)
        words = hashed_words(self._key, numbers.reshape(-1), 1).reshape(numbers.shape)
        return np.asarray((words >> np.uint64(11)) * 2.0**-53 < self._corruption.share)

    def data(self, x: Rows, y: Numbers, numbers: Numbers) -> tuple[Rows, Numbers]:
        """A batch's records (…, *shape) and labels (…), those that are struck changed in the same way every time."""
        if self._corruption is None or self._corruption.of_gradients or not (hit := self.struck(numbers)).any():
            return x, y
        x, y = x.copy(), y.copy()
        rngs = [stream(self._seed, "corrupted record", 0, int(number)) for number in numbers[hit]]
        act = cast(ActsOnData, self._corruption.act)
        found = act.on_data(x[hit][:, None], y[hit][:, None], self._classes, rngs)
        x[hit], y[hit] = found[0][:, 0], found[1][:, 0]
        return x, y

    def gradients(self, rows: Rows, numbers: Numbers, round: int, step: int, net: Net, now: Rows) -> None:
        """Change, in a client's batch of gradients (records, d), those whose records are struck, anew every step.

        What becomes of one depends on no other: else a record more or less would move more of the sum than its own.
        """
        if self._corruption is None or not self._corruption.of_gradients or not (hit := self.struck(numbers)).any():
            return
        seed, purpose = self._seed, f"corrupted gradients {step}"
        own = rows[hit]
        view = View(
            knowledge="own", seen=_Known(own), shared=lambda: stream(seed, purpose, round),
            generators=lambda: [stream(seed, purpose, round, int(number)) for number in numbers[hit]],
            mechanism=self._plan.mechanism, asked=len(rows), byzantine=len(own), progress=now - net.initial(),
        )  # fmt: skip
        with np.errstate(over="ignore"):
            rows[hit] = cast(Acts, self._corruption.act).on_updates(own, view)


@dataclass(frozen=True, eq=False)
class _Known:
    """What an attack on gradients may see: those that it is given."""

    known: Vector


def check_labels(act: object, pool: Pool) -> None:
    """Refuse an attack on data, or a corruption, that changes one class for another where labels are numbers."""
    if not pool.classes and getattr(act, "of_classes", False):
        raise FedprivError(f"{type(act).__name__} is of classes, and labels here are numbers: FeatureNoise is of both")


def check_corruption(study: Study, pool: Pool) -> None:
    """Refuse a study whose corruption is for other classes than the pool's: it is tried on no records."""
    if study.corrupted is not None and not study.corrupted.of_gradients:
        try:
            check_labels(study.corrupted.act, pool)
            cast(ActsOnData, study.corrupted.act).on_data(
                np.zeros((0, 1, *pool.shape), np.float32), np.zeros((0, 1), np.int64), pool.classes, []
            )
        except FedprivError as error:
            raise FedprivError(f"corruption: {error}") from None
