"""Safety margins of robust statistics: how many records must change before one more could move them by more than τ.

[P] Algorithm 1 tests them. Each is exact or a lower bound, and a neighbour's differs by at most one
(docs/proofs/ptr-general.md); tests look through all small data sets.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import assert_never

import numpy as np
from numpy.typing import ArrayLike

from fedpriv._base.arrays import Vector
from fedpriv.errors import FedprivError, natural, whole
from fedpriv.trust import Adjacency


def rank_margin(ordered: ArrayLike, rank: int, moved: float, *, most: int, low: float = -inf, high: float = inf) -> int:
    """How many records must be replaced before one more could move the rank-th smallest by more than `moved`; ≤ most.

    Its neighbours after r replacements are x₍i₎ and x₍j₎ for any i ≤ rank ≤ j that leave j − i − 1 ≤ r records between
    them: each of those is put to one side, as the rank needs it. Numbers lie within [low, high].

    >>> rank_margin([0.0, 1.0, 2.0, 3.0, 9.0], 3, 2.5, most=9), rank_margin([0.0, 1.0, 2.0, 9.0, 9.0], 3, 2.5, most=9)
    (1, 0)
    """
    values = np.concatenate(([low], _sorted(ordered), [high]))
    whole(rank=rank, most=most)
    if rank > values.size - 2:
        raise FedprivError(f"rank must be at most the number of records, {values.size - 2}, got {rank}")
    first = np.arange(max(rank - most - 1, 0), rank + 1)
    past = np.maximum(np.searchsorted(values, _at_most(values[first], moved), side="right"), rank)
    return min(int(np.min((past - first - 1)[past < values.size], initial=most)), most)


def median_margin(
    ordered: ArrayLike, moved: float, *, most: int, low: float = -inf, high: float = inf,
    adjacency: Adjacency = "replace",
) -> int:  # fmt: skip
    """How many records must change before one more could move the lower median, the ⌈n/2⌉-th, by more than `moved`.

    Added and removed, x₍i₎ and x₍j₎ become neighbours by j − i − 1 removals; the median may go from one to the other
    where as many records are above as below, or one more: what is missing is added or removed too.

    >>> median_margin([0.0, 1.0, 2.0, 3.0, 9.0], 2.5, most=9, adjacency="add-remove")
    2
    """
    values = _sorted(ordered)
    match adjacency:
        case "replace":
            return rank_margin(values, (values.size + 1) // 2, moved, most=most, low=low, high=high)
        case "add-remove":
            held = np.concatenate(([low], values, [high]))
            below = np.arange(held.size - 1)
            past = np.searchsorted(held, _at_most(held[:-1], moved), side="right")
            spare = held.size - 1 - past - below  # how many more are above than below
            cost = past - below - 1 + np.where(spare > 0, spare - 1, -spare)
            return min(int(np.min(cost[past < held.size], initial=most)), most)
        case _ as never:
            assert_never(never)


def mode_margin(values: ArrayLike, adjacency: Adjacency = "replace") -> int:
    """How many records must change before one more could change the most frequent value; ties go to the smallest.

    A lower bound, by the two largest counts: one record replaced moves their difference by two, one added or removed by
    one.

    >>> mode_margin([4, 4, 4, 4, 4, 4, 7]), mode_margin([4, 4, 4, 4, 4, 4, 7], "add-remove"), mode_margin([4, 7])
    (2, 4, 0)
    """
    counts = np.sort(np.append(np.unique(_sorted(values), return_counts=True)[1], [0, 0]))
    ahead = int(counts[-1] - counts[-2])
    return max((ahead - 1) // 2 if adjacency == "replace" else ahead - 1, 0)


def trimmed_margin(lengths: ArrayLike, limit: float, trimmed: int) -> int:
    """How many records must change before one more could move a sum without its F longest by more than τ, or 2τ.

    max(F − #{‖x‖ > τ}, 0), [P] Theorem 5.1: by τ where one is added or removed, by 2τ where one is replaced.

    >>> trimmed_margin([0.2, 0.9, 0.4, 1.0], 0.5, trimmed=3)
    1
    """
    whole(trimmed=trimmed)
    return max(trimmed - int((_sorted(lengths) > limit).sum()), 0)


def margin_by_sensitivity(sensitivity: Callable[[int], float], moved: float, *, most: int) -> int:
    """The margin of a function whose local sensitivity after r changes is known: min{r: LS⁽ʳ⁾ > τ}, at most `most`.

    What is no number counts as more than τ: data on which nothing is known have no margin there.

    >>> margin_by_sensitivity(lambda r: 0.5 * (r + 1), 2.0, most=10)
    4
    """
    natural(most=most)
    return next((r for r in range(most) if not sensitivity(r) <= moved), most)


def _at_most(values: Vector, moved: float) -> Vector:
    """The sums of values and what they may move by, rounded down: of a gap that passes that, none is missed."""
    sums = values + moved
    with np.errstate(invalid="ignore"):
        part = sums - values
        short = (values - (sums - part)) + (moved - part)  # what rounding has left out (Knuth's two-sum)
    return np.where(short < 0, np.nextafter(sums, -np.inf), sums)


def _sorted(values: ArrayLike) -> Vector:
    """Numbers of a data set in rising order, for its margin; refused where some are none."""
    found = np.sort(np.asarray(values, np.float64), axis=None)
    if found.size and np.isnan(found[-1]):
        raise FedprivError("values must be numbers, got nan: hold records to a range first")
    return found
