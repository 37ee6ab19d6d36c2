"""A rule that somebody else wrote, or a step before one: checked when it is made, and whatever it gives when asked."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from fedpriv._base.arrays import Vector
from fedpriv.aggregation.rows import Aid
from fedpriv.errors import FAULTS, FedprivError, natural, reason, whole

ROWS = "it is called with (matrix, aid), a row a client"


@dataclass(frozen=True, eq=False)
class OwnRule:
    """What `module:Class` says of itself, and its answers; what it leaves out has the defaults here.

    Only rules that ship work on sums, so one that asks for no rows would never be called.
    """

    kind: str  # `module:Class`
    rule: Any = field(repr=False)  # an object of that class, whatever it is
    least: int = 1  # rows without which it cannot work
    votes: bool = False  # whether it gives signs
    sums: bool = False  # whether it gives a sum, which is divided by the rows
    needs_reference: bool = False  # whether it asks for the server's own update, of `root` records
    root: int = 1  # how many records that update is worked out from

    needs_rows: ClassVar[bool] = True

    @staticmethod
    def of(kind: str, rule: Any) -> OwnRule:
        """Somebody's own rule, an object of the class at `kind`, checked and ready; an error says what is wrong."""
        if not _said(kind, rule, "needs_rows", True):
            raise FedprivError(
                f"aggregation {kind}: needs_rows must be true or left out: only rules that ship work on sums, one of "
                "your own is called with rows, under privacy.trust = 'local'"
            )
        words = {name: _said(kind, rule, name, False) for name in ("votes", "sums", "needs_reference")}
        root = _number(kind, rule, "root") if words["needs_reference"] else 1
        return OwnRule(kind, _callable(kind, rule), _number(kind, rule, "least"), root=root, **words)

    def __call__(self, matrix: Vector, aid: Aid | None = None) -> Vector:
        """What somebody's own rule makes of the messages, refused where it is not one finite number a coordinate."""
        found = _answered(self.kind, self.rule, matrix, aid)
        if found.shape != matrix.shape[1:] or not np.isfinite(found).all():
            raise FedprivError(
                f"aggregation {self.kind} must give {matrix.shape[1]} finite numbers, got {_told(found)}"
            )
        return np.asarray(found, np.float64)


@dataclass(frozen=True, eq=False)
class OwnStep:
    """A step before a rule: what `module:Class` says of itself, and its answers."""

    kind: str  # `module:Class`
    step: Any = field(repr=False)  # an object of that class, whatever it is
    least: int = 1  # rows without which it cannot work
    keeps_symbols: bool = False  # whether it chooses among the rows and changes none

    @staticmethod
    def of(kind: str, step: Any) -> OwnStep:
        """Somebody's own step before a rule, an object of the class at `kind`, checked; an error says what is wrong."""
        keeps = _said(kind, step, "keeps_symbols", False)
        return OwnStep(kind, _callable(kind, step), _number(kind, step, "least"), keeps)

    def left(self, rows: int) -> int:
        """How many rows the step leaves for the rule of so many: what it says itself, else as many as came."""
        if not callable(getattr(self.step, "left", None)):
            return rows
        try:
            found = self.step.left(rows)
        except FAULTS as error:
            raise FedprivError(f"aggregation {self.kind}: left({rows}): {reason(error)}") from error
        natural(**{f"aggregation {self.kind}: left({rows})": found})
        return int(found)

    def __call__(self, matrix: Vector, aid: Aid | None = None) -> Vector:
        """The rows that somebody's own step leaves for the rule, refused where they are no rows of finite numbers."""
        found = _answered(self.kind, self.step, matrix, aid)
        if found.ndim != 2 or found.shape[1] != matrix.shape[1] or not np.isfinite(found).all():
            raise FedprivError(
                f"aggregation {self.kind} must give rows of {matrix.shape[1]} finite numbers, got {_told(found)}"
            )
        return found


def _callable(kind: str, own: Any) -> Any:
    """Somebody's own rule or step, refused where it cannot be called."""
    if not callable(own):
        raise FedprivError(f"aggregation {kind} has no __call__: {ROWS}")
    return own


def _said(kind: str, own: Any, name: str, default: bool) -> bool:
    """What somebody's own rule or step says under a name, such as `votes`: True or False, else refused."""
    found = _read(kind, own, name, default)
    if not isinstance(found, bool):
        raise FedprivError(f"aggregation {kind}: {name} must be True or False, got {found!r}")
    return found


def _number(kind: str, own: Any, name: str) -> int:
    """What somebody's own rule or step says under a name, such as `least`: a whole number from 1 on, else refused."""
    found = _read(kind, own, name, 1)
    whole(**{f"aggregation {kind}: {name}": found})
    return int(found)


def _read(kind: str, own: Any, name: str, default: Any) -> Any:
    """What stands under a name of somebody's own rule or step; a property that raises is an error of one line."""
    try:
        return getattr(own, name, default)
    except FAULTS as error:
        raise FedprivError(f"aggregation {kind}: {name}: {reason(error)}") from error


def _answered(kind: str, own: Any, matrix: Vector, aid: Aid | None) -> Vector:
    """What somebody's own rule or step gives for the messages, as an array of floats; what it raises is one line."""
    try:
        found = np.asarray(own(matrix, aid))
        return found if found.dtype == np.float32 else found.astype(np.float64)
    except FAULTS as error:
        how = f"; {ROWS}" * isinstance(error, TypeError)
        raise FedprivError(f"aggregation {kind}: {reason(error)}{how}") from error


def _told(found: Vector) -> str:
    """What is wrong with the array that somebody's own rule or step gave: its shape, or that it is not finite."""
    return f"an array of shape {found.shape}" if np.isfinite(found).all() else "some that are not finite"
