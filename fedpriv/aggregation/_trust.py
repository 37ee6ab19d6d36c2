"""Rules that judge rows by the server's own update, or by the signs of most."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from fedpriv._base.arrays import Vector
from fedpriv._base.one_thread import one_thread
from fedpriv.aggregation._cloud import equally
from fedpriv.aggregation._mean_shift import largest_cluster
from fedpriv.aggregation.rows import Aid, Attackers, measured_rows, row_norms, weighted_sum
from fedpriv.errors import FedprivError, limited, positive, probability, real, whole
from fedpriv.settings import check_fields


@dataclass(frozen=True, kw_only=True)
class FlTrust:
    """Σ tᵢ ‖g‖ xᵢ / ‖xᵢ‖ / Σ tᵢ with tᵢ = max(0, cos(xᵢ, g)): Cao, Fang, Liu, Gong 2021 (NDSS, arXiv 2012.13995).

    g is the server's own update, from `root` records that it holds. Where no row points its way there is no result.

    >>> aid = Aid(reference=np.array([3.0, 4.0]))
    >>> FlTrust(root=10)(np.array([[0.6, 0.8], [30.0, 40.0], [-3.0, -4.0]]), aid)
    array([3., 4.])
    """

    root: Annotated[
        int, whole, "records of the server's own, drawn from those set aside (data.aside), which no client holds"
    ]

    needs_rows: ClassVar[bool] = True
    needs_reference: ClassVar[bool] = True
    least: ClassVar[int] = 1

    def __post_init__(self) -> None:
        """Refuse, in a study's table of its rule, a number of root records that is none from 1 on."""
        check_fields(self)

    def __call__(self, matrix: Vector, aid: Aid | None = None) -> Vector:
        """The messages at `aid.reference`'s length, averaged by how far each points its way: the server's direction."""
        own = None if aid is None else aid.reference
        if own is None:
            raise FedprivError(f"{self} needs a reference: the server's own update")
        rows, sizes = measured_rows(matrix, self.least, self)
        with one_thread():
            size = float(row_norms(own[None].astype(np.float64))[0])
            if not size > 0:
                raise FedprivError(f"{self} trusts nobody: the server's own update is zero")
            along = (rows @ (own / size).astype(rows.dtype)).astype(np.float64)
            trust = np.maximum(along, 0) / np.where(sizes > 0, sizes, 1)
            if not (total := trust.sum()) > 0:
                raise FedprivError(f"{self} trusts nobody: no message points the way of the server's own update")
            return weighted_sum(trust / total * size / np.where(sizes > 0, sizes, 1), rows)


@dataclass(frozen=True, kw_only=True)
class MoNna:
    """The mean of the n − f rows nearest to one's own: Farhadkhani et al. 2023 (ICML, arXiv 2209.10931), as a server's.

    There each worker's own vector is the pivot; here it is the server's update, from `root` records that it holds, as
    FlTrust's. It chooses and is not averaged. Of rows as near, the first.

    >>> MoNna(byzantine=1, root=10)(np.array([[1.0], [2.0], [9.0]]), Aid(reference=np.array([1.9])))
    array([1.5])
    """

    byzantine: Attackers
    root: Annotated[
        int, whole, "records of the server's own, drawn from those set aside (data.aside), which no client holds"
    ]

    needs_rows: ClassVar[bool] = True
    needs_reference: ClassVar[bool] = True
    assumes: ClassVar[str] = "byzantine"

    def __post_init__(self) -> None:
        """Refuse, in a study's table of its rule, attackers none from 0 on, or root records none from 1 on."""
        check_fields(self)

    @property
    def least(self) -> int:
        """The fewest messages of which most are honest, 2f + 1; a round with fewer is refused."""
        return 2 * self.byzantine + 1

    def __call__(self, matrix: Vector, aid: Aid | None = None) -> Vector:
        """The mean of the messages nearest to `aid.reference`, rows that are not finite left out: the direction."""
        own = None if aid is None else aid.reference
        if own is None:
            raise FedprivError(f"{self} needs a reference: the server's own update")
        rows, _ = measured_rows(matrix, self.least, self)
        with one_thread():
            away = np.concatenate([row_norms(row[None] - own.astype(rows.dtype)) for row in rows])
            return weighted_sum(equally(len(rows), np.argsort(away, kind="stable")[: len(rows) - self.byzantine]), rows)


@dataclass(frozen=True, kw_only=True)
class SignGuard:
    """The mean of rows of usual length and usual signs, none longer than the median one.

    Xu, Huang, Song, Lan 2022 (ICDCS, arXiv 2109.05872). Usual length: `shortest` to `longest` times the median M of the
    norms. Usual signs: of a drawn `share` of the coordinates each row's shares of +, 0 and −; mean shift finds clusters
    of these, and the largest counts. Each row is scaled by min(1, M / ‖x‖). Where no row has both, those of usual
    length count.

    >>> matrix = np.array([[1.0, 2.0, 1.0], [1.0, 1.0, 2.0], [2.0, 1.0, 1.0], [-1.0, -1.0, -2.0], [90.0, 90.0, 90.0]])
    >>> SignGuard(share=1.0)(matrix, Aid(np.random.default_rng(1))).round(3)
    array([1.333, 1.333, 1.333])
    """

    shortest: Annotated[float, probability, "the shortest usual length, in median ones"] = 0.1
    longest: Annotated[
        float,
        real,
        limited("must be at least 1, the median's own length", least=1),
        "the longest usual length, in median ones",
    ] = 3.0
    share: Annotated[float, probability, positive, "the share of the coordinates whose signs are counted"] = 0.1

    needs_rows: ClassVar[bool] = True
    least: ClassVar[int] = 1

    def __post_init__(self) -> None:
        """Refuse, in a study's table of its rule, usual lengths or a share of signs as fields forbid them."""
        check_fields(self)

    def __call__(self, matrix: Vector, aid: Aid | None = None) -> Vector:
        """The mean of messages of usual length and signs, rows that are not finite left out: the server's direction."""
        rng = (aid or Aid()).draws_for(self)
        rows, sizes = measured_rows(matrix, self.least, self)
        median = float(np.sort(sizes)[(len(sizes) - 1) // 2])  # the lower of two: a row that has it is usual
        usual = (sizes >= self.shortest * median) & (sizes <= self.longest * median)
        dimension = rows.shape[1]
        count = max(1, round(self.share * dimension))
        sample = rows[:, np.sort(rng.choice(dimension, count, replace=False, shuffle=False))]
        plus, minus = (sample > 0).sum(axis=1), (sample < 0).sum(axis=1)
        signs = np.stack((plus, count - plus - minus, minus), axis=1) / count  # each row's shares of +, 0 and −
        kept = usual & largest_cluster(signs)
        kept = kept if kept.any() else usual
        weights = kept / kept.sum() * (median / np.maximum(sizes, median or 1))
        with one_thread():
            return weighted_sum(weights, rows)
