"""What can be done to messages before a rule sees them: matrix in, matrix out, rows that are not finite left out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from fedpriv._base.arrays import Vector
from fedpriv._base.one_thread import one_thread
from fedpriv.aggregation._cloud import Cloud
from fedpriv.aggregation.rows import Aid, Attackers, measured_rows, scaled_rows, usable_rows
from fedpriv.errors import positive, whole
from fedpriv.settings import check_fields


@dataclass(frozen=True, kw_only=True)
class Nnm:
    """Each row becomes the mean of the n − f rows nearest to it, itself among them.

    Nearest-neighbour mixing: Allouah et al. 2023 (AISTATS, arXiv 2302.01772). Rows as far as the last that counts share
    its place.

    >>> Nnm(byzantine=1)(np.array([[1.0], [2.0], [4.0], [90.0]])).round(2)
    array([[ 2.33],
           [ 2.33],
           [ 2.33],
           [32.  ]])
    """

    byzantine: Attackers

    assumes: ClassVar[str] = "byzantine"
    keeps_symbols: ClassVar[bool] = False

    def __post_init__(self) -> None:
        """Refuse, in a study's table of this step, attackers that are no whole number from 0 on."""
        check_fields(self)

    @property
    def least(self) -> int:
        """The fewest messages that can be mixed, 2f + 1; a round with fewer is refused."""
        return 2 * self.byzantine + 1

    def left(self, rows: int) -> int:
        """How many rows the rule sees after this step where so many came: as many."""
        return rows

    def __call__(self, matrix: Vector, aid: Aid | None = None) -> Vector:
        """The rows that the rule sees: each message mixed with those nearest to it."""
        rows, sizes = measured_rows(matrix, self.least, self)
        with one_thread():
            return np.asarray(self.weights(Cloud.of(rows, sizes)).astype(rows.dtype) @ rows)

    def weights(self, cloud: Cloud) -> Vector:
        """For each point a row of weights over all, whose mean takes its place: 1/(n − f) for each of the nearest."""
        squares, near = cloud.squares, len(cloud) - self.byzantine
        last = np.partition(squares, near - 1, axis=1)[:, near - 1 : near]
        nearer, level = squares < last, squares == last
        places = near - nearer.sum(axis=1, keepdims=True)
        return np.asarray((nearer + level * (places / level.sum(axis=1, keepdims=True))) / near)


@dataclass(frozen=True, kw_only=True)
class Bucketing:
    """Means of `size` rows at a time, in an order drawn each round: Karimireddy, He, Jaggi 2022 (arXiv 2006.09365).

    >>> Bucketing(size=2)(np.array([[1.0], [1.0], [1.0]]), Aid(np.random.default_rng(1)))
    array([[1.],
           [1.]])
    """

    size: Annotated[int, whole, "s, rows a mean"]

    least: ClassVar[int] = 1
    keeps_symbols: ClassVar[bool] = False

    def __post_init__(self) -> None:
        """Refuse, in a study's table of this step, a bucket's size that is no whole number from 1 on."""
        check_fields(self)

    def left(self, rows: int) -> int:
        """How many rows the rule sees after this step where so many came, ⌈n / s⌉; the last mean may be of fewer."""
        return -(-rows // self.size)

    def __call__(self, matrix: Vector, aid: Aid | None = None) -> Vector:
        """The rows that the rule sees: means of `size` messages, in an order that `aid.rng` draws."""
        rows = usable_rows(matrix, self.least, self)
        order = (aid or Aid()).draws_for(self).permutation(len(rows))
        kind = rows.dtype if rows.dtype.kind == "f" else np.float64
        means = np.empty((self.left(len(rows)), rows.shape[1]), kind)
        for number, mean in enumerate(means):
            own = order[number * self.size : (number + 1) * self.size]
            np.divide(rows[own[0]], len(own), out=mean, dtype=kind)
            for row in own[1:]:
                mean += np.divide(rows[row], len(own), dtype=kind)
        return means


@dataclass(frozen=True, kw_only=True)
class Arc:
    """The ⌊2 (f/n) (n − f)⌋ longest rows are cut to the length of the next: adaptive robust clipping.

    Allouah et al. 2025 (ICLR, arXiv 2405.14432).

    >>> Arc(byzantine=1)(np.array([[1.0], [2.0], [4.0], [-90.0]]))
    array([[ 1.],
           [ 2.],
           [ 4.],
           [-4.]])
    """

    byzantine: Attackers

    assumes: ClassVar[str] = "byzantine"
    keeps_symbols: ClassVar[bool] = False

    def __post_init__(self) -> None:
        """Refuse, in a study's table of this step, attackers that are no whole number from 0 on."""
        check_fields(self)

    @property
    def least(self) -> int:
        """The fewest messages of which the longest can be cut, 2f + 1; a round with fewer is refused."""
        return 2 * self.byzantine + 1

    def left(self, rows: int) -> int:
        """How many rows the rule sees after this step where so many came: as many."""
        return rows

    def __call__(self, matrix: Vector, aid: Aid | None = None) -> Vector:
        """The rows that the rule sees: the messages, none longer than the longest one that is kept as it is."""
        rows, sizes = measured_rows(matrix, self.least, self)
        count = len(rows)
        cut = 2 * self.byzantine * (count - self.byzantine) // count
        return _within(rows, sizes, float(np.sort(sizes)[count - cut - 1]))


@dataclass(frozen=True, kw_only=True)
class NormClipping:
    """Each row times min(1, radius / ‖x‖): Sun et al. 2019 (arXiv 1911.07963).

    >>> NormClipping(radius=5)(np.array([[1.0, 1.0], [30.0, 40.0]]))
    array([[1., 1.],
           [3., 4.]])
    """

    radius: Annotated[float, positive, "the ℓ2 norm that longer rows are cut to"]

    least: ClassVar[int] = 1
    keeps_symbols: ClassVar[bool] = False

    def __post_init__(self) -> None:
        """Refuse, in a study's table of this step, a radius that is not positive."""
        check_fields(self)

    def left(self, rows: int) -> int:
        """How many rows the rule sees after this step where so many came: as many."""
        return rows

    def __call__(self, matrix: Vector, aid: Aid | None = None) -> Vector:
        """The rows that the rule sees: the messages, none longer than the radius in ℓ2."""
        return _within(*measured_rows(matrix, self.least, self), self.radius)


def _within(rows: Vector, sizes: Vector, longest: float) -> Vector:
    """Messages as rows, those of an ℓ2 norm (`sizes`) above `longest` shortened to it: what both clipping steps do."""
    return scaled_rows(rows, np.where(sizes > longest, longest / np.where(sizes > 0, sizes, 1), 1))
