"""What every estimator takes and gives: a matrix of records in; a mean, what failed, and what was charged out.

An estimator is a frozen dataclass of settings. `events(n, d)` is the plan of all its accesses to the data, known
before any is made: a plan that cannot work is refused there, with nothing spent. `estimate(data, rng)` charges the
whole plan, then runs; how many accesses it comes to make depends on their noisy answers, so nothing is refunded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike

from fedpriv._base.arrays import Vector
from fedpriv.accounting.event import Event
from fedpriv.accounting.ledger import Ledger
from fedpriv.curves.compose import Bounds
from fedpriv.errors import FedprivError

EMPTY = Ledger()


class Tested(NamedTuple):
    """What was proposed and how its tests ended, for estimates by propose-test-release; all of it public."""

    proposed: float  # τ, the local sensitivity, in the data's units
    margin: int  # F, the records to spare at which a test passes but for δ₀
    failure: float  # δ₀, the chance that a test passes which should not
    passed: tuple[bool, ...]  # of each test
    standard_error: tuple[float | None, ...]  # of the noise on what each released; None where that was nothing


@dataclass(frozen=True, kw_only=True, eq=False)
class Estimate:
    """A mean, or the check that failed (the paper's ∅); and what was spent on it either way."""

    mean: Vector | None
    failure: str | None = None  # which check failed; there is no mean then
    ledger: Ledger = EMPTY  # the whole plan, charged before the first access; empty where nothing is private
    made: tuple[str, ...] = ()  # the accesses that were made, in order
    epsilon: Bounds  # of the ledger at `delta`, by the certified accountant; infinite where nothing is private
    delta: float = 0.0
    notes: tuple[str, ...] = ()  # what to know of this run, a line each: all of it from released numbers
    statistic: str = "mean"  # what `mean` is an estimate of
    tested: Tested | None = None  # by propose-test-release: what was proposed, and which branch was taken


class Estimator(Protocol):
    """What estimators have in common."""

    def events(self, n: int, d: int) -> tuple[Event, ...]:
        """Every access an estimator makes to n records of d numbers, as charged; raises where n is too small."""

    def estimate(self, data: ArrayLike, rng: Generator) -> Estimate:
        """The mean of the rows of a data set, as `fedpriv estimate` prints it, with what it cost or why it failed."""


def records_of(data: ArrayLike, least: int = 1) -> Vector:
    """An estimator's data as float64 rows, n × d; a plain list of numbers is one column.

    Fewer than `least` are refused. What is not finite is left for clipping.

    >>> records_of([1, 2]).shape
    (2, 1)
    """
    if isinstance(data, np.ma.MaskedArray):
        raise FedprivError("data must have no mask: a masked array's hidden entries would count")
    try:
        rows = np.asarray(data)
    except ValueError as error:
        raise FedprivError(f"data must be a matrix of numbers, a row a record ({error})") from None
    if rows.dtype.kind not in "biuf":
        raise FedprivError(f"data must be numbers, got {rows.dtype.name}")
    if rows.ndim not in (1, 2) or len(rows) < least or not all(rows.shape[1:]):
        raise FedprivError(f"data must be a matrix, a row a record, got the shape {rows.shape}")
    with np.errstate(over="ignore"):  # a number too large is infinite, and warned of nobody: a warning would tell
        rows = rows.astype(np.float64, copy=False)
    return rows[:, None] if rows.ndim == 1 else rows
