"""What a model makes of the server's held-out records, for a round's record line: accuracy, by class, a backdoor's."""

from __future__ import annotations

from typing import Any

from clients.data.pool import FEW_CLASSES
from clients.models.gradients import Judged
from clients.training.byzantine import tried_records
from clients.training.prepared import Prepared
from fedpriv._base.arrays import Vector


class HeldOut:
    """The held-out records of a run, which are public, and those of them that its attackers' backdoor is tried on."""

    def __init__(self, prepared: Prepared) -> None:
        self._net, self._pool, evaluation = prepared.net, prepared.pool, prepared.study.evaluation
        self._public = bool(len(self._pool.y_test)) and (evaluation is None or evaluation.public)
        self._tried = tried_records(prepared.study, self._pool) if self._public else None

    def line(self, weights: Vector | None) -> dict[str, Any]:
        """What a round's line says of weights: loss, accuracy or R², by class, success; nothing in a round without."""
        found: Judged | None = None
        if self._public and weights is not None:
            found = self._net.judged(weights, self._pool.x_test, self._pool.y_test)
        figure = None if found is None else found.figure
        line: dict[str, Any] = {"loss": None if found is None else found.loss, "accuracy": figure}
        if self._net.numbers:
            line |= {"accuracy": None, "r2": figure}
        elif found is not None and self._pool.classes <= FEW_CLASSES:
            line["accuracy_by_class"] = {str(each): own for each, own in found.by_class.items()}
        if self._tried is not None and weights is not None:
            line["backdoor"] = self._net.evaluate(weights, *self._tried)[0]
        return line
