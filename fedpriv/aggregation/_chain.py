"""Pre-aggregators and a rule as one rule."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol, runtime_checkable

from fedpriv._base.arrays import Vector
from fedpriv._base.one_thread import one_thread
from fedpriv.aggregation._before import Nnm
from fedpriv.aggregation._cloud import Cloud, Weighing
from fedpriv.aggregation.rows import Aid, measured_rows, weighted_sum
from fedpriv.errors import FedprivError

MOST = 1 << 18  # rows, past which no clients are waited for


class Rule(Protocol):
    """A matrix of one row a client in, a vector out.

    A rule that assumes a number of attackers names the setting for it in `assumes`; `GivesSigns`, `GivesSum`
    and `NeedsReference` are what else some say.
    """

    needs_rows: ClassVar[bool]

    @property
    def least(self) -> int:
        """The rows without which it cannot work."""

    def __call__(self, matrix: Vector, aid: Aid | None = None) -> Vector:
        """What the rows agree on."""


@runtime_checkable
class GivesSigns(Protocol):
    """A rule that may give signs."""

    @property
    def votes(self) -> bool:
        """Whether it gives signs, and no mean."""


@runtime_checkable
class GivesSum(Protocol):
    """A rule that may give a sum."""

    @property
    def sums(self) -> bool:
        """Whether it gives a sum, which is divided by the rows."""


@runtime_checkable
class NeedsReference(Protocol):
    """A rule that may ask for the server's own update."""

    @property
    def needs_reference(self) -> bool:
        """Whether it asks for it."""

    @property
    def root(self) -> int:
        """Of how many records, which the server holds itself."""


class Before(Protocol):
    """A pre-aggregator: a matrix in, a matrix out."""

    @property
    def keeps_symbols(self) -> bool:
        """Whether the rows that come out are some of those that went in, and none is cut, mixed or averaged.

        Before a MajorityVote such a step sees symbols, in half steps about their centre, in the place of updates.
        """

    @property
    def least(self) -> int:
        """The rows without which it cannot work."""

    def left(self, rows: int) -> int:
        """How many rows come out where so many go in."""

    def __call__(self, matrix: Vector, aid: Aid | None = None) -> Vector:
        """The rows that the rule sees."""


@dataclass(frozen=True)
class Chain:
    """What is done before, in that order, and then the rule.

    >>> import numpy as np
    >>> from fedpriv.aggregation import Median, NormClipping
    >>> Chain((NormClipping(radius=2),), Median())(np.array([[1.0], [90.0]]))
    array([1.5])
    """

    before: tuple[Before, ...]  # one step or more, the first of them first
    rule: Rule  # which sees what the last step leaves

    needs_rows: ClassVar[bool] = True

    @property
    def least(self) -> int:
        """The rows with which every step has what it needs."""
        steps: tuple[Before | Rule, ...] = (*self.before, self.rule)
        for rows in range(1, MOST):
            if all(self._rows_at(place, rows) >= step.least for place, step in enumerate(steps)):
                return rows
        raise FedprivError(f"{steps[-1]} has too few rows behind {self.before[-1]}, however many come in")

    @property
    def mixing(self) -> Before | None:
        """The first step whose rows are no messages of the mechanism any more, if there is one."""
        return next((step for step in self.before if not step.keeps_symbols), None)

    def left(self, rows: int) -> int:
        """How many rows the rule itself sees where so many come in."""
        return self._rows_at(len(self.before), rows)

    def _rows_at(self, place: int, rows: int) -> int:
        """How many rows the step at a place sees where so many come in."""
        for step in self.before[:place]:
            rows = step.left(rows)
        return rows

    def __call__(self, matrix: Vector, aid: Aid | None = None) -> Vector:
        """What the rule makes of the rows; one matrix of distances serves an Nnm and a rule of distances after it."""
        *early, last = self.before
        for step in early:
            matrix = step(matrix, aid)
        rule = self.rule
        if not isinstance(last, Nnm) or not isinstance(rule, Weighing):
            return rule(last(matrix, aid), aid)
        rows, sizes = measured_rows(matrix, max(last.least, rule.least), self)
        with one_thread():
            cloud = Cloud.of(rows, sizes)
            mixing = last.weights(cloud)
            return weighted_sum(rule.weights(cloud.mixed(mixing)) @ mixing, rows)
