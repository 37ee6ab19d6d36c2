"""Rules that look for a point in the middle of the rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from fedpriv._base.arrays import Vector
from fedpriv._base.one_thread import one_thread
from fedpriv.aggregation._cloud import Cloud, weighed
from fedpriv.aggregation.rows import Aid, measured_rows, row_norms, weighted_sum
from fedpriv.errors import positive, whole
from fedpriv.settings import check_fields

_STEPS = 1000  # at most, of a search for a median
_STILL = 1e-10  # a search ends when weights times distances move less than so much of themselves
_ROWS = 16  # compared with a point at once


@dataclass(frozen=True, kw_only=True)
class GeometricMedian:
    """The point z of least Σ ‖z − xᵢ‖, by Weiszfeld's steps until they end.

    z ← Σ βᵢ xᵢ / Σ βᵢ with βᵢ = 1 / max(ν, ‖z − xᵢ‖), from the mean on: the smoothed algorithm of Pillutla, Kakade,
    Harchaoui 2022 (RFA, arXiv 1912.13445). ν is `smoothing` times the median of the ‖z − xᵢ‖, so that the rule has no
    unit.

    >>> GeometricMedian()(np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [99.0, 99.0]])).round(3)
    array([0.789, 0.789])
    """

    smoothing: Annotated[float, positive, "ν as a multiple of the median distance: nearer rows weigh no more"] = 1e-6

    needs_rows: ClassVar[bool] = True
    least: ClassVar[int] = 1

    def __post_init__(self) -> None:
        """Refuse, in a study's table of its rule, a smoothing that is not positive."""
        check_fields(self)

    def __call__(self, matrix: Vector, aid: Aid | None = None) -> Vector:
        """The geometric median of the messages, rows that are not finite left out: the server's direction."""
        return weighed(self, matrix)

    def weights(self, cloud: Cloud) -> Vector:
        """The weight of each message in their geometric median, βᵢ / Σ β after Weiszfeld's last step.

        Distances follow from the inner products, ‖xᵢ − Σ wⱼ xⱼ‖² = Pᵢᵢ − 2(Pw)ᵢ + wᵀPw.
        """
        own, weights = np.diag(cloud.products), np.full(len(cloud), 1 / len(cloud))
        for _ in range(_STEPS):
            towards = cloud.products @ weights
            distances = np.sqrt(np.maximum(own - 2 * towards + weights @ towards, 0))
            if not (nearest := self.smoothing * float(np.median(distances))):  # most rows are where we are
                break
            beta = 1 / np.maximum(distances, nearest)
            before, weights = weights, beta / beta.sum()
            if np.abs(weights - before) @ distances <= _STILL * (weights @ distances):
                break
        return weights


@dataclass(frozen=True, kw_only=True)
class CenteredClipping:
    """v ← v + mean of (xᵢ − v) · min(1, τ / ‖xᵢ − v‖), `steps` times from v = 0.

    Karimireddy, He, Jaggi 2021 (ICML, arXiv 2012.10333), who start where the last round ended; here a round knows
    nothing of others.

    >>> CenteredClipping(radius=2)(np.array([[1.0, 1.0], [1.0, -1.0], [30.0, 40.0]])).round(3)
    array([1.067, 0.533])
    """

    radius: Annotated[float, positive, "τ, how far from the centre a row is heard"]
    steps: Annotated[int, whole, "how often the centre is moved"] = 1

    needs_rows: ClassVar[bool] = True
    least: ClassVar[int] = 1

    def __post_init__(self) -> None:
        """Refuse, in a study's table of its rule, a radius not positive, or steps that are none from 1 on."""
        check_fields(self)

    def __call__(self, matrix: Vector, aid: Aid | None = None) -> Vector:
        """The centre after the last step, rows that are not finite left out: the server's direction."""
        rows, distances = measured_rows(matrix, self.least, self)
        point = np.zeros(rows.shape[1])
        with one_thread():
            for step in range(self.steps):
                if step:
                    centre = point.astype(rows.dtype)  # in the precision of the rows
                    parts = (rows[start : start + _ROWS] for start in range(0, len(rows), _ROWS))
                    distances = np.concatenate([row_norms(part - centre) for part in parts])
                weights = self.radius / np.maximum(distances, self.radius) / len(rows)
                point = weighted_sum(weights, rows) + (1 - weights.sum()) * point
        return point
