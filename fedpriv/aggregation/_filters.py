"""Rules that leave out, or weigh down, the rows that stand out along the direction in which all differ most."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil
from typing import Annotated, ClassVar

import numpy as np

from fedpriv._base.arrays import Vector
from fedpriv._base.one_thread import one_thread
from fedpriv.aggregation._cloud import Cloud, weighed
from fedpriv.aggregation.rows import Aid, Attackers, measured_rows, row_norms, weighted_sum
from fedpriv.errors import positive, whole
from fedpriv.settings import check_fields

_KRYLOV = 30  # vectors of a basis, at most
_RESTARTS = 10  # bases, at most
_CLOSE = 1e-5  # what the product of the matrix and an eigenvector may be off by, relative to the eigenvalue


@dataclass(frozen=True, kw_only=True)
class Dnc:
    """Divide and conquer: the mean of the rows that are never filtered out. Shejwalkar, Houmansadr 2021 (NDSS), Alg. 2.

    `steps` times: draw `sampled` coordinates, score each row by the square of its part along the first singular vector
    of the centred sample, and filter out the `share` · f rows of highest score. Where no row is kept every time, the
    mean is of those kept most often.

    >>> matrix = np.array([[1.0, 0.0], [2.0, 0.0], [3.0, 0.0], [80.0, 0.0]])
    >>> Dnc(byzantine=1)(matrix, Aid(np.random.default_rng(1)))
    array([2., 0.])
    """

    byzantine: Attackers
    share: Annotated[float, positive, "c, how many rows are filtered out for each attacker"] = 1.0
    sampled: Annotated[int, whole, "b, coordinates drawn for a score"] = 10_000
    steps: Annotated[int, whole, "how often it is done"] = 5

    needs_rows: ClassVar[bool] = True
    assumes: ClassVar[str] = "byzantine"

    def __post_init__(self) -> None:
        """Refuse, in a study's table of its rule, attackers, a share, a sample or steps as fields forbid them."""
        check_fields(self)

    @property
    def filtered(self) -> int:
        """How many messages each step filters out: c · f, rounded up."""
        return ceil(self.share * self.byzantine * (1 - 1e-12))

    @property
    def least(self) -> int:
        """The fewest messages it can work with, 2f + 1, and one more than are filtered out; fewer are refused."""
        return max(2 * self.byzantine, self.filtered) + 1

    def __call__(self, matrix: Vector, aid: Aid | None = None) -> Vector:
        """The mean of the messages never filtered out, rows that are not finite left out: the server's direction."""
        rng = (aid or Aid()).draws_for(self)
        rows, sizes = measured_rows(matrix, self.least, self)
        dimension, times = rows.shape[1], np.zeros(len(rows), np.int64)
        with one_thread():
            for _ in range(self.steps if self.sampled < dimension else 1):
                columns = np.sort(rng.choice(dimension, min(self.sampled, dimension), replace=False, shuffle=False))
                every = len(columns) == dimension
                sample = rows if every else rows[:, columns]
                _, scores = spread(
                    Cloud.of(sample, sizes if every else row_norms(sample)), np.full(len(rows), 1 / len(rows))
                )
                times[np.argsort(scores, kind="stable")[: len(rows) - self.filtered]] += 1
            kept = times == times.max()
            return weighted_sum(kept / kept.sum(), rows)


@dataclass(frozen=True, kw_only=True)
class Caf:
    """The covariance-bound agnostic filter: Allouah, Guerraoui, Stephan 2025 (ICML, arXiv 2505.01874).

    From cᵢ = 1 on, while Σ cᵢ > n − 2f: μ = Σ cᵢxᵢ / Σ cᵢ; λ and v the first eigenvalue and eigenvector of
    Σ cᵢ(xᵢ − μ)(xᵢ − μ)ᵀ / Σ cᵢ; τᵢ = ((xᵢ − μ)ᵀv)²; cᵢ ← cᵢ(1 − τᵢ / max τ), the maximum over cᵢ > 0. The result is
    the μ of least λ. (ByzFL takes the maximum over all rows, and for v one power step from a random vector.)

    >>> Caf(byzantine=1)(np.array([[1.0, 0.0], [2.0, 0.0], [3.0, 0.0], [2.0, 1.0], [80.0, 0.0]])).round(2)
    array([2.  , 0.25])
    """

    byzantine: Attackers

    needs_rows: ClassVar[bool] = True
    assumes: ClassVar[str] = "byzantine"

    def __post_init__(self) -> None:
        """Refuse, in a study's table of its rule, attackers that are no whole number from 0 on."""
        check_fields(self)

    @property
    def least(self) -> int:
        """The fewest messages that can be weighed down, 2f + 1; a round with fewer is refused."""
        return 2 * self.byzantine + 1

    def __call__(self, matrix: Vector, aid: Aid | None = None) -> Vector:
        """The weighted mean where covariance is least, rows that are not finite left out: the server's direction."""
        return weighed(self, matrix)

    def weights(self, cloud: Cloud) -> Vector:
        """The weight of each message where the weighted covariance was least: c / Σ c of the best μ."""
        trust, enough = np.ones(len(cloud)), len(cloud) - 2 * self.byzantine
        best, least = trust / len(cloud), np.inf
        while (total := trust.sum()) > enough:
            weights = trust / total
            largest, scores = spread(cloud, weights)
            if largest < least:
                best, least = weights, largest
            if not (most := scores[trust > 0].max()) > 0:  # all that count are equal
                break
            trust *= 1 - np.minimum(scores / most, 1)
        return best


def spread(cloud: Cloud, weights: Vector) -> tuple[float, Vector]:
    """The largest eigenvalue of messages' weighted covariance, and each one's squared part along its vector: scores.

    With B the inner products about the weighted mean and w the weights, √w B √w has the covariance's eigenvalues; where
    u is its first eigenvector and λ its eigenvalue, the points' parts are B √w u / √λ.
    """
    root, towards = np.sqrt(weights), cloud.products @ weights
    middle = weights @ towards

    def about(vector: Vector) -> Vector:
        """B times a vector, B the inner products about the weighted mean, from inner products about any centre."""
        total = vector.sum()
        return np.asarray(cloud.products @ vector - towards * total - towards @ vector + middle * total)

    farthest = int(np.argmax(weights * (np.diag(cloud.products) - 2 * towards + middle)))
    start = root * about(np.eye(1, len(cloud), farthest)[0] * root)
    largest, vector = _first_eigenvector(lambda vector: root * about(root * vector), start)
    if not largest > 0:
        return 0.0, np.zeros(len(cloud))
    return largest, (about(root * vector) / np.sqrt(largest)) ** 2


def _first_eigenvector(product: Callable[[Vector], Vector], start: Vector) -> tuple[float, Vector]:
    """The largest eigenvalue, and its vector, of a symmetric matrix ≥ 0 known by its products with vectors: a filter's.

    Lanczos' method, every basis vector made orthogonal to all; where there is no largest, 0 and the start.
    """
    value, vector = 0.0, start
    for _ in range(_RESTARTS):
        if not (size := _length(vector)) > 0:
            return 0.0, start
        basis, images = np.zeros((_KRYLOV, len(start))), np.zeros((_KRYLOV, len(start)))
        basis[0], count = vector / size, 0
        for count in range(1, _KRYLOV + 1):
            images[count - 1] = new = product(basis[count - 1])
            scale = float(np.abs(new).max())
            for _ in range(2):  # the second takes away what rounding left
                new = new - (basis[:count] @ new) @ basis[:count]
            if count == _KRYLOV or not (rest := _length(new)) > _CLOSE * scale:
                break
            basis[count] = new / rest
        values, vectors = np.linalg.eigh(basis[:count] @ images[:count].T)
        value, vector = float(values[-1]), vectors[:, -1] @ basis[:count]
        if np.abs(vectors[:, -1] @ images[:count] - value * vector).max() <= _CLOSE * value:
            break
    return value, vector


def _length(vector: Vector) -> float:
    """The ℓ2 norm of a vector of the eigenvalue search, of numbers whose squares may overflow."""
    largest = float(np.abs(vector).max())
    return largest * float(np.sqrt(((vector / largest) ** 2).sum())) if largest > 0 else 0.0
