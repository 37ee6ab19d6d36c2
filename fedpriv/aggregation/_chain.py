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

    A rule that assumes a number of attackers names the setting for it in `assumes`; `GivesSigns`, `GivesSum`,
    `NeedsReference` and `HasMost` are what else some say.
    """

    needs_rows: ClassVar[bool]

    @property
    def least(self) -> int:
        """The fewest messages the rule can work with; a study that asks fewer, and a round of fewer, are refused."""

    def __call__(self, matrix: Vector, aid: Aid | None = None) -> Vector:
        """The vector that the messages, a row of the matrix each, agree on: the server's direction in a round."""


@runtime_checkable
class GivesSigns(Protocol):
    """A rule that may give signs."""

    @property
    def votes(self) -> bool:
        """Whether the rule's vector is of signs, −1, 0 and +1, and no mean: the study's decoder is then a vote."""


@runtime_checkable
class GivesSum(Protocol):
    """A rule that may give a sum."""

    @property
    def sums(self) -> bool:
        """Whether the rule's vector is a sum, which the server divides by the number of rows."""


@runtime_checkable
class NeedsReference(Protocol):
    """A rule that may ask for the server's own update."""

    @property
    def needs_reference(self) -> bool:
        """Whether the rule asks for the server's own update, as FlTrust does, in `aid.reference`."""

    @property
    def root(self) -> int:
        """From how many records, which the server holds itself, its own update for the rule is computed."""


@runtime_checkable
class HasMost(Protocol):
    """A rule whose work grows so fast with the messages that there are a most."""

    @property
    def most(self) -> int:
        """The most messages the rule can work with; a study that asks more is refused."""


class Before(Protocol):
    """A pre-aggregator: a matrix in, a matrix out."""

    @property
    def keeps_symbols(self) -> bool:
        """Whether the rows this step gives are some of its own, none of them cut, mixed or averaged.

        Before a MajorityVote such a step sees symbols, in half steps about their centre, in the place of updates.
        """

    @property
    def least(self) -> int:
        """The fewest messages the step can work with; a round with fewer is refused."""

    def left(self, rows: int) -> int:
        """How many rows the step leaves for the rule where so many go in."""

    def __call__(self, matrix: Vector, aid: Aid | None = None) -> Vector:
        """The rows that the rule sees in the place of the messages: changed, fewer, or both."""


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
        """The fewest messages with which every step and the rule can work; a study that asks fewer is refused."""
        steps: tuple[Before | Rule, ...] = (*self.before, self.rule)
        for rows in range(1, MOST):
            if all(self._rows_at(place, rows) >= step.least for place, step in enumerate(steps)):
                return rows
        raise FedprivError(f"{steps[-1]} has too few rows behind {self.before[-1]}, however many come in")

    @property
    def mixing(self) -> Before | None:
        """The first step whose rows are no symbols any more, which a study refuses before a MajorityVote; else None."""
        return next((step for step in self.before if not step.keeps_symbols), None)

    def left(self, rows: int) -> int:
        """How many rows the rule itself sees where so many messages come in."""
        return self._rows_at(len(self.before), rows)

    def _rows_at(self, place: int, rows: int) -> int:
        """How many rows the step at a place of the chain sees where so many messages come in."""
        for step in self.before[:place]:
            rows = step.left(rows)
        return rows

    def __call__(self, matrix: Vector, aid: Aid | None = None) -> Vector:
        """The server's direction: messages through every step, then the rule.

        One matrix of distances serves an Nnm and a rule of distances after it.
        """
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
