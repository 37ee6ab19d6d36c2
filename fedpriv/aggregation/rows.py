"""Which rows of a matrix count."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedpriv.arrays import Vector
from fedpriv.errors import LARGEST, FedprivError


def finite_rows(matrix: Vector) -> NDArray[np.bool_]:
    """Which rows hold finite numbers alone, none so large that its square overflows.

    >>> finite_rows(np.array([[1.0, 2.0], [np.nan, 1.0], [1.0, -np.inf], [1e200, 1.0]]))
    array([ True, False, False, False])
    """
    limit = min(LARGEST, float(np.finfo(matrix.dtype).max))
    low, high = matrix.min(axis=1, initial=0), matrix.max(axis=1, initial=0)
    return np.asarray((low >= -limit) & (high <= limit))  # nan fails both


def usable(matrix: Vector, least: int, rule: object) -> Vector:
    """The finite rows, not copied where all are; refused where there are fewer than the rule needs."""
    matrix = np.asarray(matrix)
    if matrix.ndim != 2:
        raise FedprivError(f"messages must be a matrix with one row a client, got shape {matrix.shape}")
    if matrix.dtype.kind != "f":
        matrix = matrix.astype(np.float64)
    good = finite_rows(matrix)
    if (count := int(good.sum())) < least:
        need = f"{rule} needs at least {least} row{'s' if least > 1 else ''}"
        raise FedprivError(f"{need}, got {count} of finite numbers among {len(matrix)}")
    return matrix if good.all() else matrix[good]
