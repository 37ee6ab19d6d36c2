"""Rules that take the mean of the n − f rows that lie together best: least diameter, or least largest eigenvalue."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from math import comb
from typing import Annotated, ClassVar, Literal

import numpy as np

from fedpriv._base.arrays import Vector
from fedpriv.aggregation._cloud import Cloud, equally, weighed
from fedpriv.aggregation._cover import most_branches, tightest_subset
from fedpriv.aggregation._flattest import flattest_subset, search_products
from fedpriv.aggregation.rows import Aid, Attackers
from fedpriv.errors import FedprivError
from fedpriv.settings import check_fields

_BRANCHES = 1 << 18  # of a search for one diameter, at most: seconds
_PRODUCTS = 1 << 31  # of all eigenvalues that may have to be found, at most: seconds


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
        found = ball if self.search == "ball" else tightest_subset(squares, ball, float(inner.min()))
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
        if search_products(self.least, self.byzantine) > _PRODUCTS:
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
        return next(n for n in count(self.least) if search_products(n + 1, self.byzantine) > _PRODUCTS)

    def __call__(self, matrix: Vector, aid: Aid | None = None) -> Vector:
        """The mean of the messages that vary least in every direction, rows that are not finite left out."""
        return weighed(self, matrix)

    def weights(self, cloud: Cloud) -> Vector:
        """The weights of the messages in the mean: one weight for all of the best subset, 0 for the others."""
        if search_products(len(cloud), self.byzantine) > _PRODUCTS:
            raise self._too_large(len(cloud))
        return equally(len(cloud), flattest_subset(cloud.products, self.byzantine))

    def _too_large(self, rows: int) -> FedprivError:
        """The refusal of so many messages: how many subsets they have, and what can be done instead."""
        return FedprivError(
            f"Smea: byzantine = {self.byzantine} of {rows} rows are {comb(rows, self.byzantine):.2g} subsets, too many "
            "to search: fewer clients a round, fewer attackers, or the rule Caf"
        )
