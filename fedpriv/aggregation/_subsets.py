"""Rules that take the mean of the n − f rows that lie together best: least diameter, or least largest eigenvalue."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations, count
from math import comb
from typing import Annotated, ClassVar, Literal

import numpy as np

from fedpriv._base.arrays import Vector
from fedpriv.aggregation._cloud import Cloud, Places, equally, weighed
from fedpriv.aggregation._cover import most_branches, vertex_cover
from fedpriv.aggregation.rows import Aid, Attackers
from fedpriv.errors import FedprivError
from fedpriv.settings import check_fields

_BRANCHES = 1 << 18  # of a search for one diameter, at most: seconds
_PRODUCTS = 1 << 31  # of all eigenvalues that may have to be found, at most: seconds
_BATCH = 64  # subsets whose eigenvalues are found at once, and before any can be left out
_ROUNDING = 1e-9  # of a bound from below


@dataclass(frozen=True, kw_only=True)
class Mda:
    """Minimum diameter averaging: the mean of the n − f rows of which no two lie far apart. El Mhamdi et al. 2018.

    "exact" looks for the least diameter itself: at most f rows meet every pair that is farther apart, which a search
    finds in steps that grow as 1.47^f. "ball" takes a row and its n − f − 1 nearest, of all rows the one whose farthest
    of them is nearest: its diameter is at most twice the least. Of subsets as tight it is the one that the search meets
    first, which looks at rows by the sum of squared distances to their nearest n − f.

    >>> Mda(byzantine=1)(np.array([[1.0], [2.0], [4.0], [7.0]]))
    array([2.33333333])
    """

    byzantine: Attackers
    search: Annotated[
        Literal["exact", "ball"], "the least diameter, or one of at most twice that for any number of attackers"
    ] = "exact"

    needs_rows: ClassVar[bool] = True
    assumes: ClassVar[str] = "byzantine"

    def __post_init__(self) -> None:
        """Refuse, in a study's table of its rule, attackers or a search as fields forbid them, and one too large."""
        check_fields(self)
        if self.search == "exact" and (steps := most_branches(self.byzantine)) > _BRANCHES:
            raise FedprivError(
                f"Mda: byzantine = {self.byzantine} may take an exact search {steps:.2g} steps, where {_BRANCHES:,} "
                "are the most: search = 'ball', within twice the least diameter"
            )

    @property
    def least(self) -> int:
        """The fewest messages of which most are honest, 2f + 1; a round with fewer is refused."""
        return 2 * self.byzantine + 1

    def __call__(self, matrix: Vector, aid: Aid | None = None) -> Vector:
        """The mean of the messages that lie closest together, rows that are not finite left out: the direction."""
        return weighed(self, matrix)

    def weights(self, cloud: Cloud) -> Vector:
        """The weights of the messages in the mean: one weight for all that lie together, 0 for the others."""
        squares, kept = cloud.squares, len(cloud) - self.byzantine
        nearest = np.sort(squares, axis=1)[:, :kept]  # each point itself is its nearest, at 0
        order = np.argsort(nearest.sum(axis=1), kind="stable")
        squares, inner = squares[np.ix_(order, order)], nearest[order, -1]
        ball = np.argsort(squares[np.argmin(inner)], kind="stable")[:kept]
        found = ball if self.search == "ball" else _tightest(squares, ball, float(inner.min()))
        return equally(len(cloud), order[found])


@dataclass(frozen=True, kw_only=True)
class Smea:
    """The mean of the n − f rows whose covariance has the least largest eigenvalue: Allouah et al. 2023 (ICML).

    Exact, for few rows: of all subsets those are left out that vary more than the best along a direction already found.
    What that may come to grows as C(n, f)(n − f)³, and a study that asks for too much is refused.

    >>> Smea(byzantine=1)(np.array([[1.0, 0.0], [2.0, 1.0], [3.0, 0.0], [2.0, 9.0]]))
    array([2.        , 0.33333333])
    """

    byzantine: Attackers

    needs_rows: ClassVar[bool] = True
    assumes: ClassVar[str] = "byzantine"

    def __post_init__(self) -> None:
        """Refuse, in a study's table of its rule, attackers that are none from 0 on, or too many to search for."""
        check_fields(self)
        if _eigenvalue_work(self.least, self.byzantine) > _PRODUCTS:
            raise self._too_large(self.least)

    @property
    def least(self) -> int:
        """The fewest messages of which most are honest, 2f + 1; a round with fewer is refused."""
        return 2 * self.byzantine + 1

    @property
    def most(self) -> int:
        """The most messages whose subsets can be searched; a study that asks more, and a round of more, are refused.

        >>> Smea(byzantine=1).most, Smea(byzantine=4).most
        (216, 36)
        """
        return next(n for n in count(self.least) if _eigenvalue_work(n + 1, self.byzantine) > _PRODUCTS)

    def __call__(self, matrix: Vector, aid: Aid | None = None) -> Vector:
        """The mean of the messages that vary least in every direction, rows that are not finite left out."""
        return weighed(self, matrix)

    def weights(self, cloud: Cloud) -> Vector:
        """The weights of the messages in the mean: one weight for all of the best subset, 0 for the others."""
        if _eigenvalue_work(len(cloud), self.byzantine) > _PRODUCTS:
            raise self._too_large(len(cloud))
        return equally(len(cloud), _flattest(cloud.products, self.byzantine))

    def _too_large(self, rows: int) -> FedprivError:
        """The refusal of so many messages: how many subsets they have, and what can be done instead."""
        return FedprivError(
            f"Smea: byzantine = {self.byzantine} of {rows} rows are {comb(rows, self.byzantine):.2g} subsets, too many "
            "to search: fewer clients a round, fewer attackers, or the rule Caf"
        )


def _tightest(squares: Vector, ball: Places, nearest: float) -> Places:
    """Mda's exact choice: places of as many points as `ball` has, of least diameter, by squared distances.

    The diameter is one of the distances, at least `nearest` and at most the ball's own; halving finds it.
    """
    kept = ball
    distances = np.unique(squares[(squares >= nearest) & (squares <= squares[np.ix_(ball, ball)].max())])
    low, high = 0, len(distances) - 1
    while low < high:
        middle = (low + high) // 2
        cover = vertex_cover(squares > distances[middle], len(squares) - len(ball))
        if cover is None:
            low = middle + 1
        else:
            high, kept = middle, np.setdiff1d(np.arange(len(squares)), cover)[: len(ball)]
    return kept


def _flattest(products: Vector, byzantine: int) -> Places:
    """Smea's choice: the places of n − f points whose scatter, n − f times their covariance, is flattest.

    No subset varies more along any direction than its largest eigenvalue says: each direction found is a bound from
    below for all, and who lies above the best that is known needs no eigenvalue of its own.
    """
    subsets = _all_subsets(len(products), byzantine)
    bounds, best, kept, batch = np.zeros(len(subsets)), np.inf, subsets[0], _BATCH
    while bounds.min() < best:
        now = np.argsort(bounds, kind="stable")[:batch]
        values = np.concatenate(
            [
                np.linalg.eigvalsh(_centred(products, each))[:, -1]
                for each in np.array_split(subsets[now], -(-batch // _BATCH))
            ]
        )
        own, found = subsets[now[np.argmin(values)]], float(values.min())
        if found < best:
            best, kept = found, own
        direction = _first_direction(products, own)[subsets]
        bounds = np.maximum(bounds, direction.var(axis=1) * direction.shape[1] * (1 - _ROUNDING))
        bounds[now] = np.inf
        batch *= 2
    return np.asarray(kept)


def _all_subsets(rows: int, byzantine: int) -> Places:
    """The places of every n − f of so many messages, a row each, in the order of those that are left out: for Smea."""
    left_out = np.array(list(combinations(range(rows), byzantine)), np.intp)
    kept = np.ones((len(left_out), rows), bool)
    np.put_along_axis(kept, left_out, False, axis=1)
    return np.nonzero(kept)[1].reshape(len(kept), rows - byzantine)


def _centred(products: Vector, subsets: Places) -> Vector:
    """Inner products of the points of each subset about its own mean: their eigenvalues are those of its scatter."""
    own = products[subsets[..., :, None], subsets[..., None, :]]
    own = own - own.mean(axis=-1, keepdims=True)
    return np.asarray(own - own.mean(axis=-2, keepdims=True))


def _first_direction(products: Vector, subset: Places) -> Vector:
    """How far every point lies along the direction in which those of a subset vary most, about the cloud's centre."""
    values, vectors = np.linalg.eigh(_centred(products, subset))
    along = products[:, subset] @ (vectors[:, -1] - vectors[:, -1].mean())
    return np.asarray(along / np.sqrt(max(float(values[-1]), np.finfo(float).tiny)))


def _eigenvalue_work(rows: int, byzantine: int) -> int:
    """What Smea's search comes to at most: C(n, f) subsets, and (n − f)³ for the eigenvalues of each."""
    return comb(rows, byzantine) * (rows - byzantine) ** 3
