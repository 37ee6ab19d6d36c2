"""Which rows of a matrix count, how long they are, and what a rule may know besides them."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from fedpriv._base.arrays import Vector
from fedpriv.errors import LARGEST, FedprivError, natural

Attackers = Annotated[int, natural, "f, the attackers among the rows; the study's own number if not given"]
_MANY = 128  # rows that are added up in the matrix's own precision


@dataclass(frozen=True, eq=False)
class Aid:
    """What a rule may need besides the messages: randomness, and the server's own update."""

    rng: Generator | None = None  # the round's own
    reference: Vector | None = None  # from records that the server holds
    centre: Fraction = Fraction(0)  # of rows that are symbols: the mean symbol of an update of 0
    seed: int = 0  # that every round's generator is drawn from
    round: int = 0  # which this is, from 1
    settings: tuple[float, ...] = ()  # of a curator that adapts, as this round has them; the first ones if empty

    def draws_for(self, rule: object) -> Generator:
        """The round's generator, for a rule or a step that draws; without one an error names who needs it."""
        if self.rng is None:
            raise FedprivError(f"{rule} needs a generator: it draws")
        return self.rng


def finite_rows(matrix: Vector) -> NDArray[np.bool_]:
    """Which rows, a message each, hold finite numbers alone, none so large that its square overflows.

    >>> finite_rows(np.array([[1.0, 2.0], [np.nan, 1.0], [1.0, -np.inf], [1e200, 1.0]]))
    array([ True, False, False, False])
    """
    return _finite(matrix, _squares(matrix))


def usable_rows(matrix: Vector, least: int, rule: object) -> Vector:
    """The messages a rule works with: the matrix's finite rows, refused where there are fewer than it needs.

    They are not copied where all are finite.
    """
    return _usable(matrix, least, rule)[0]


def measured_rows(matrix: Vector, least: int, rule: object) -> tuple[Vector, Vector]:
    """The messages that a rule of distances works with: the matrix's finite rows, and the ℓ2 norm of each.

    The rows are in double precision where float32 could not hold their products.
    """
    rows, squares = _usable(matrix, least, rule)
    if rows.dtype == np.float32 and not _plain(squares).all():
        rows = rows.astype(np.float64)
    rows = np.ascontiguousarray(rows, dtype=None if rows.dtype == np.float32 else np.float64)
    return rows, _roots(rows, squares)


def row_norms(rows: Vector) -> Vector:
    """The ℓ2 norm of each row of a matrix of messages, whatever its size: no square overflows.

    >>> row_norms(np.array([[3, 4], [3e20, -4e20], [0, 0]], np.float32)).astype(np.float32)
    array([5.e+00, 5.e+20, 0.e+00], dtype=float32)
    """
    return _roots(rows, _squares(rows))


def _usable(matrix: Vector, least: int, rule: object) -> tuple[Vector, Vector]:
    """The finite rows of a matrix of messages, and the sums of their squares; refused where the rule needs more."""
    matrix = np.asarray(matrix)
    if matrix.ndim != 2:
        raise FedprivError(f"messages must be a matrix with one row a client, got shape {matrix.shape}")
    if matrix.dtype.kind not in "fiu":
        matrix = matrix.astype(np.float64)
    squares = _squares(matrix)
    good = _finite(matrix, squares)
    if (count := int(good.sum())) < least:
        need = f"{rule} needs at least {least} row{'s' if least > 1 else ''}"
        raise FedprivError(f"{need}, got {count} of finite numbers among {len(matrix)}")
    return (matrix, squares) if good.all() else (matrix[good], squares[good])


def _finite(matrix: Vector, squares: Vector) -> NDArray[np.bool_]:
    """Which rows, a message each, are finite and not too large; the sums of their squares say so of most at once."""
    if matrix.dtype.kind != "f":
        return np.ones(len(matrix), bool)
    limit = min(LARGEST, float(np.finfo(matrix.dtype).max))
    good = np.asarray(squares <= LARGEST**2)
    for row in np.flatnonzero(~good):  # it is not finite, or the sum of its squares overflowed
        good[row] = -limit <= matrix[row].min(initial=0) and matrix[row].max(initial=0) <= limit  # nan fails both
    return good


def _squares(rows: Vector) -> Vector:
    """The sum of squares of each message, for norms and finiteness; 0 where rows are of whole numbers.

    In the precision of the rows.
    """
    if rows.dtype.kind != "f":
        return np.zeros(len(rows))
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(np.vecdot(rows, rows), np.float64)


def _plain(squares: Vector) -> NDArray[np.bool_]:
    """Which messages' sums of squares can be trusted in float32: nothing overflowed or vanished, or nearly did."""
    return np.asarray((squares == 0) | ((squares > 1e-20) & (squares < 1e30)))


def _roots(rows: Vector, squares: Vector) -> Vector:
    """The ℓ2 norms of messages, from the sums of their squares where these can be trusted, else from the rows."""
    for row in np.flatnonzero(~_plain(squares) | (squares == 0)):
        exact = rows[row].astype(np.float64)
        squares[row] = exact @ exact
    return np.sqrt(squares)


def scaled_rows(rows: Vector, factors: Vector) -> Vector:
    """Each row, a message, times its factor, in a matrix of its own: what steps that clip give the rule."""
    return np.asarray(rows * factors[:, None].astype(rows.dtype))


def weighted_sum(weights: Vector, rows: Vector) -> Vector:
    """The sum Σ wᵢ xᵢ of messages times their weights, in double precision: what a rule's direction is made of.

    Of float32 rows, sums of a hundred or so are formed in theirs.
    """
    total = np.zeros(rows.shape[1])
    for start in range(0, len(rows), _MANY):
        part = weights[start : start + _MANY].astype(rows.dtype)
        if part.any():
            total += part @ rows[start : start + _MANY]
    return total
