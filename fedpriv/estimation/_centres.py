"""Estimators that promise nothing, of any number of records: what private ones are measured against."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Annotated, ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike

from fedpriv import aggregation
from fedpriv._base.arrays import Vector
from fedpriv.accounting.event import Event
from fedpriv.curves.compose import Bounds
from fedpriv.errors import FedprivError, whole
from fedpriv.estimation._estimate import Estimate, records_of
from fedpriv.settings import check_fields

_STEPS = 1000  # of a search
_STILL = 1e-10  # of the median distance: a search ends when it moves by less
_NEAREST = 1e-6  # of the median distance: no record counts as nearer, as its weight is 1/distance
_BLOCK = 1 << 16  # records measured at once


@dataclass(frozen=True, kw_only=True)
class EmpiricalMean:
    """The mean of the records: no privacy, and one record can move it anywhere."""

    private: ClassVar[bool] = False

    def events(self, n: int, d: int) -> tuple[Event, ...]:
        """No accesses to charge for `fedpriv estimate`: this estimator of the plain mean hides nothing."""
        return ()

    def estimate(self, data: ArrayLike, rng: Generator) -> Estimate:
        """The plain mean of the records, n × d, as `fedpriv estimate` prints it; no privacy. `rng` is not used."""
        return unprotected(aggregation.Mean()(usable(data)))


@dataclass(frozen=True, kw_only=True)
class CoordinateMedian:
    """The median of each coordinate: no privacy; its error under corruption α grows as α√d."""

    private: ClassVar[bool] = False

    def events(self, n: int, d: int) -> tuple[Event, ...]:
        """No accesses to charge for `fedpriv estimate`: this estimator of medians hides nothing."""
        return ()

    def estimate(self, data: ArrayLike, rng: Generator) -> Estimate:
        """The median of each coordinate of the records, n × d, for `fedpriv estimate`; no privacy, no draws."""
        return unprotected(aggregation.Median()(usable(data)))


@dataclass(frozen=True, kw_only=True)
class MedianOfMeans:
    """The geometric median of the means of equal blocks: no privacy. Minsker 2015 (arXiv 1308.1334).

    It is right as long as fewer than half of the blocks hold a corrupted record, so it is for heavy tails, and for a
    few corrupted records, not for a share of them.
    """

    blocks: Annotated[int, whole, "blocks whose means' geometric median it is"] = 20

    private: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_fields(self)

    def events(self, n: int, d: int) -> tuple[Event, ...]:
        """No accesses to charge for `fedpriv estimate`: nothing is hidden. Raises for fewer records than blocks."""
        if n < self.blocks:
            raise FedprivError(f"MedianOfMeans: {self.blocks} blocks need as many records, got {n}")
        return ()

    def estimate(self, data: ArrayLike, rng: Generator) -> Estimate:
        """The geometric median of the means of equal blocks, dealt at random; the few records left over are unused."""
        rows = usable(data)
        self.events(*rows.shape)
        size = len(rows) // self.blocks
        dealt = rng.permutation(len(rows))[: size * self.blocks].reshape(self.blocks, size)
        means = np.stack([rows[own].mean(axis=0) for own in dealt])
        return unprotected(aggregation.GeometricMedian()(means))


@dataclass(frozen=True, kw_only=True)
class GeometricMedian:
    """The point of least Σ ‖z − xᵢ‖: no privacy; its error under corruption α grows as α√d.

    `fedpriv.aggregation.GeometricMedian` takes the same steps in the space of weights, from the inner products of all
    pairs, which a million records do not have; here each step reads the records once, in blocks.
    """

    private: ClassVar[bool] = False

    def events(self, n: int, d: int) -> tuple[Event, ...]:
        """No accesses to charge for `fedpriv estimate`: this estimator of the geometric median hides nothing."""
        return ()

    def estimate(self, data: ArrayLike, rng: Generator) -> Estimate:
        """The point of least Σ ‖z − xᵢ‖ of the records, by Weiszfeld's steps from the coordinate median; no privacy."""
        rows = usable(data)
        point = aggregation.Median()(rows)
        for _ in range(_STEPS):
            distances = np.concatenate(
                [np.linalg.norm(rows[i : i + _BLOCK] - point, axis=1) for i in range(0, len(rows), _BLOCK)]
            )
            if not (nearest := _NEAREST * float(np.median(distances))):  # most records are where we are
                break
            weights = 1 / np.maximum(distances, nearest)
            before, point = point, weights @ rows / weights.sum()
            if np.linalg.norm(point - before) <= _STILL * float(np.median(distances)):
                break
        return unprotected(point)


def unprotected(mean: Vector, *notes: str) -> Estimate:
    """The estimate of an estimator that hides no record: its mean, ε = ∞, and a note that says so."""
    return Estimate(mean=mean, epsilon=Bounds(inf, inf), notes=("no privacy: the mean is given as it is", *notes))


def usable(data: ArrayLike) -> Vector:
    """The records, n × d, for estimators that hide nothing: refused, naming the row, where one is not finite.

    >>> usable([[1.0], [float("nan")]])
    Traceback (most recent call last):
    fedpriv.errors.FedprivError: record 1 (counting from 0) holds nan: private methods clip such records, this cannot
    """
    rows = records_of(data)
    good = aggregation.finite_rows(rows)
    if not good.all():
        row = int(np.flatnonzero(~good)[0])
        value = rows[row][~np.isfinite(rows[row])][:1]
        what = f"{value[0]:g}" if value.size else "a number too large"
        raise FedprivError(
            f"record {row} (counting from 0) holds {what}: private methods clip such records, this cannot"
        )
    return rows
